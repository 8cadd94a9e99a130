# The image of a release: the program, the authorities that it trusts, and a folder for its state.
# There is no shell in it; `portcullis status` is what looks after it. The build context is made by
# goreleaser, with the programs of each platform in a folder of its name, and by test/release.
FROM scratch
ARG TARGETPLATFORM
COPY LICENSE NOTICE /
COPY .tools/release/image/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --chown=65532:65532 .tools/release/image/data /data
COPY $TARGETPLATFORM/portcullis /usr/bin/portcullis
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/usr/bin/portcullis"]
CMD ["serve", "--dir", "/data", "--addr", "0.0.0.0:8080"]
