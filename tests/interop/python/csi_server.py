"""A CSI plugin on C-core's gRPC: serves Identity and the queries of Controller and Node.

usage: csi_server.py ENDPOINT v0|v1

Messages are written as bytes, so nothing but grpcio is needed.
"""

import signal
import sys
from concurrent import futures

import grpc


def text(field, value):
    data = value.encode()
    return bytes([field << 3 | 2, len(data)]) + data


READY = b"\x0a\x02\x08\x01"
# A capability whose type is 1: CONTROLLER_SERVICE, CREATE_DELETE_VOLUME, STAGE_UNSTAGE_VOLUME.
FIRST = b"\x04\x0a\x02\x08\x01"


def answer(data):
    return grpc.unary_unary_rpc_method_handler(lambda request, context: data)


def services(package):
    # v0 has the plugin's and the controller's capabilities in field 2.
    field = b"\x12" if package == "csi.v0" else b"\x0a"
    identity = {
        "Probe": answer(READY),
        "GetPluginInfo": answer(text(1, "python.csi.example.com") + text(2, "0.1")),
        "GetPluginCapabilities": answer(field + FIRST),
    }
    controller = {"ControllerGetCapabilities": answer(field + FIRST)}
    node = {"NodeGetCapabilities": answer(b"\x0a" + FIRST), "NodeGetInfo": answer(text(1, "python-node"))}
    for name, methods in (("Identity", identity), ("Controller", controller), ("Node", node)):
        yield grpc.method_handlers_generic_handler(f"{package}.{name}", methods)


def main():
    endpoint, version = sys.argv[1:]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers(tuple(services(f"csi.{version}")))
    if not server.add_insecure_port(endpoint):
        sys.exit(f"cannot listen on {endpoint}")
    server.start()
    signal.sigwait([signal.SIGTERM, signal.SIGINT])


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
main()
