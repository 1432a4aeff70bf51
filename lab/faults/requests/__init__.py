"""Malformed requests, and what servers may respond to them.

framing        read bytes as RFC 9112 permits: the requests in them, and which must be refused
responses      count the responses in a stream, and find those that are not complete
exchange       send bytes to a server, and receive all responses
judgement      compare the responses with the requests
valid          valid requests
corpus         requests of public test suites, with what must happen to them
attack         send many requests to one server from several connections, and count faults
"""
