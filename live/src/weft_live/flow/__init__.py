"""What one host and one switch decide under the pace flow: no clock, no network and no sockets."""
