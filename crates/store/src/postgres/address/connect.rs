//! Connecting: one host after the other, and none for ever.

use std::time::Duration;

use tokio::{task::AbortHandle, time::timeout};
use tokio_postgres::{
    Client, Config, NoTls,
    config::{Host, LoadBalanceHosts},
};
use uuid::Uuid;

use super::Address;

// === types ===

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The last host refused, or could not be reached.
    #[error(transparent)]
    Driver(#[from] tokio_postgres::Error),
    /// The last host took the connection and said nothing.
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

// === impl Address ===

impl Address {
    /// Connects. A task of its own drives the connection, until the client is dropped or the task is aborted.
    ///
    /// The driver's own timeout ends when the host has taken the connection, and a server that is stopped, or a proxy
    /// without a server, takes it and says no more. So each host has twice that time for all of it: a name may have a
    /// second address, which is tried when the first one cannot be reached.
    pub(crate) async fn connect(&self) -> Result<(Client, AbortHandle), ConnectError> {
        let patience = 2 * *self.config.get_connect_timeout().unwrap_or(&Self::CONNECT_TIMEOUT);
        let mut failure = ConnectError::Silent(patience);
        for config in each_host(&self.config) {
            match timeout(patience, self.connect_to(&config)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => failure = error.into(),
                Err(_) => failure = ConnectError::Silent(patience),
            }
        }
        Err(failure)
    }

    async fn connect_to(&self, config: &Config) -> Result<(Client, AbortHandle), tokio_postgres::Error> {
        #[cfg(feature = "postgres-tls")]
        if let Some(connector) = &self.connector {
            let (client, connection) = config.connect(connector.clone()).await?;
            return Ok((client, drive(connection)));
        }
        let (client, connection) = config.connect(NoTls).await?;
        Ok((client, drive(connection)))
    }
}

fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static) -> AbortHandle {
    let driving = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a connection to PostgreSQL ended");
        }
    });
    driving.abort_handle()
}

/// The same for each host alone, in the order in which they are to be tried.
fn each_host(config: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    let fits = |length: usize| length == 0 || length == count;
    if !fits(hosts.len()) || !fits(addresses.len()) || !(fits(ports.len()) || ports.len() == 1) || count == 0 {
        // The driver says what is wrong.
        return vec![config.clone()];
    }
    let mut each: Vec<_> = (0..count).map(|index| only_host(config, index)).collect();
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        each.sort_by_cached_key(|_| Uuid::new_v4());
    }
    each
}

/// The driver's configuration forgets no host, so another one is made.
fn only_host(config: &Config, index: usize) -> Config {
    let mut only = Config::new();
    match config.get_hosts().get(index) {
        Some(Host::Tcp(name)) => only.host(name),
        Some(Host::Unix(path)) => only.host_path(path),
        None => &mut only,
    };
    if let Some(address) = config.get_hostaddrs().get(index) {
        only.hostaddr(*address);
    }
    let ports = config.get_ports();
    if let Some(port) = ports.get(index).or(ports.first()) {
        only.port(*port);
    }
    copy_rest(config, &mut only);
    only
}

/// Copies all but where the host is.
fn copy_rest(config: &Config, only: &mut Config) {
    if let Some(user) = config.get_user() {
        only.user(user);
    }
    if let Some(password) = config.get_password() {
        only.password(password);
    }
    if let Some(name) = config.get_dbname() {
        only.dbname(name);
    }
    if let Some(options) = config.get_options() {
        only.options(options);
    }
    if let Some(name) = config.get_application_name() {
        only.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        only.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        only.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        only.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        only.keepalives_retries(retries);
    }
    only.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_one_host_keeps_all_that_was_written() {
        let config: Config = "host=a hostaddr=10.0.0.1 port=5433 user=u password=p dbname=d options=-cjit=off \
                              application_name=n sslmode=require sslnegotiation=direct connect_timeout=3 \
                              tcp_user_timeout=4 keepalives=0 keepalives_idle=5 keepalives_interval=6 \
                              keepalives_retries=7 target_session_attrs=read-write channel_binding=require \
                              load_balance_hosts=random"
            .parse()
            .unwrap();
        assert_eq!(each_host(&config), [config]);
    }

    #[test]
    fn each_host_has_its_own_port_or_the_one_for_all() {
        let each = |address: &str| -> Vec<_> {
            let each = each_host(&address.parse().unwrap());
            each.iter().map(|config| (config.get_hosts().to_vec(), config.get_ports().to_vec())).collect()
        };
        let host = |name: &str, port| (vec![Host::Tcp(name.to_owned())], vec![port]);
        assert_eq!(each("postgres://a:1,b:2/d"), [host("a", 1), host("b", 2)]);
        assert_eq!(each("host=a,b port=3"), [host("a", 3), host("b", 3)]);
        assert_eq!(each("host=a,b,c port=3,4").len(), 1, "the driver refuses it");
    }
}
