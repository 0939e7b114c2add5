"""What the tests share: servers, processes, a breakable network, and the one way to wait."""
