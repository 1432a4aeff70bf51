"""What servers share. A server's own file in servers/ holds its strategy."""
