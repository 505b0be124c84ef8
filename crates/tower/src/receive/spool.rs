//! A long request body in a temporary file, which the system removes with its last handle.

use std::{io, io::SeekFrom};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt},
};
use tokio_util::io::ReaderStream;

use crate::{BoxError, RequestBody};

// === types ===

/// A body in an unnamed file.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    length: u64,
}

// === impl Spool ===

impl Spool {
    /// How much is read at once.
    const CHUNK_BYTES: usize = 64 * 1024;

    /// A new file with these chunks.
    pub(super) async fn of(chunks: &[&[u8]]) -> io::Result<Self> {
        let file = tokio::task::spawn_blocking(tempfile::tempfile).await.map_err(io::Error::other)??;
        let mut spool = Self { file: File::from_std(file), length: 0 };
        for chunk in chunks {
            spool.push(chunk).await?;
        }
        Ok(spool)
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) async fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.file.write_all(chunk).await?;
        self.length += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Waits for what is still being written, and goes back to the beginning.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.file.flush().await?;
        self.file.seek(SeekFrom::Start(0)).await?;
        Ok(())
    }

    /// Has somebody read it, and goes back to the beginning.
    pub(super) async fn read_by<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn io::Read) -> T + Send + 'static,
    ) -> io::Result<T> {
        // The clone shares its position with the original.
        let mut file = self.file.try_clone().await?.into_std().await;
        let reading = tokio::task::spawn_blocking(move || {
            io::Seek::rewind(&mut file)?;
            let found = read(&mut file);
            io::Seek::rewind(&mut file)?;
            Ok(found)
        });
        reading.await.map_err(io::Error::other)?
    }

    /// All of it, for a comparison under older rules.
    pub(super) async fn read(&self) -> io::Result<Bytes> {
        let mut file = self.file.try_clone().await?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).await?;
        file.read_to_end(&mut bytes).await?;
        // The clone shares its position with the original.
        file.seek(SeekFrom::Start(0)).await?;
        Ok(bytes.into())
    }

    pub(super) fn into_body<B>(self, trailers: Option<HeaderMap>) -> RequestBody<B> {
        let chunks = ReaderStream::with_capacity(self.file, Self::CHUNK_BYTES);
        let trailers = tokio_stream::iter(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
        let frames = tokio_stream::StreamExt::map(chunks, |chunk: io::Result<Bytes>| chunk.map(Frame::data));
        let body = StreamBody::new(tokio_stream::StreamExt::chain(frames, trailers));
        RequestBody::spooled(body.map_err(BoxError::from).boxed_unsync(), self.length)
    }
}
