# The toolkit on a small Debian. docs/how_to/container.rst: what a container hides from a measurement.
FROM debian:trixie-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates make python3 python3-venv siege \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home user && install -d -o user -g user /home/user/offload
USER user
WORKDIR /home/user/offload

COPY --chown=user:user . .
RUN make setup

CMD ["make", "demo"]
