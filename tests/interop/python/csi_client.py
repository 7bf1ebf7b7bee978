"""Calls Identity of a CSI plugin with C-core's gRPC and prints what came.

usage: csi_client.py ENDPOINT v0|v1

Prints the plugin's name, exits with 1 when a call fails.

Today's C-core makes `:authority` of the socket's percent-encoded path, which is no authority by RFC 3986, and a server
on Rust's h2 resets such a stream. So it says `localhost`, as the CSI sidecars and csi-sanity do.
"""

import sys

import grpc


def main():
    endpoint, version = sys.argv[1:]
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(endpoint, options=options) as channel:
        call = lambda name: channel.unary_unary(f"/csi.{version}.Identity/{name}")(b"", timeout=20)
        if call("Probe") != b"\x0a\x02\x08\x01":
            sys.exit("Probe: not ready")
        info = call("GetPluginInfo")
        # Field 1, a string.
        if info[:1] != b"\x0a":
            sys.exit(f"GetPluginInfo: {info!r}")
        print(info[2 : 2 + info[1]].decode())


main()
