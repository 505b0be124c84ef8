-- distrust: PostgreSQL was told or has told something that may contradict what is open here.
distrust(ARGV[3])
return { text(now), '1' }
