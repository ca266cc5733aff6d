# A container of `corun-sql`, from the Debian package: a worker, or a shell.
#
#   make package
#   podman build -t corun-sql -f packaging/Containerfile.sql target/packages          (docker build takes the same arguments)
#   podman run -v ./data:/data:ro corun-sql corun-sql sql /data/orders.parquet -c "select count(*) from orders"
FROM docker.io/library/debian:bookworm-slim
COPY corun-sql_*.deb /tmp/
RUN apt-get update \
    && apt-get install -y --no-install-recommends /tmp/corun-sql_*.deb \
    && rm -rf /tmp/corun-sql_*.deb /var/lib/apt/lists/* \
    && useradd --system --no-create-home corun
USER corun
EXPOSE 7600
# Statements under way have ten seconds.
STOPSIGNAL SIGTERM
CMD ["corun-sql", "--help"]
