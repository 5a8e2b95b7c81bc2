"""Subscribes to events of the cache as routers do, and prints lines of JSON: what they told.

events.py ENDPOINT TOPIC       each batch, as it comes; first {"connected": true}
events.py --replay ENDPOINT N  those that are sent again from number N on
events.py --slow ENDPOINT      subscribes to all with room for one message, and reads nothing
"""

import json
import socket
import struct
import sys
import time

import msgspec
import zmq
from zmq.utils.monitor import recv_monitor_message


class KVCacheEvent(msgspec.Struct, array_like=True, omit_defaults=True, tag=True):
    pass


class BlockStored(KVCacheEvent):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None


class BlockRemoved(KVCacheEvent):
    block_hashes: list[int]
    medium: str | None


class AllBlocksCleared(KVCacheEvent):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


decoder = msgspec.msgpack.Decoder(Batch)


def show(topic: bytes, number: bytes, payload: bytes) -> None:
    batch = decoder.decode(payload)
    events = [{"kind": type(e).__name__, **msgspec.structs.asdict(e)} for e in batch.events]
    print(json.dumps({"topic": topic.decode(), "number": struct.unpack(">q", number)[0], "events": events}), flush=True)


def follow(endpoint: str, topic: str) -> None:
    sub = zmq.Context.instance().socket(zmq.SUB)
    monitor = sub.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
    sub.subscribe(topic)
    sub.connect(endpoint)
    recv_monitor_message(monitor)
    print(json.dumps({"connected": True}), flush=True)
    while True:
        show(*sub.recv_multipart())


def replay(endpoint: str, start: int) -> None:
    dealer = zmq.Context.instance().socket(zmq.DEALER)
    dealer.connect(endpoint)
    dealer.send_multipart([b"", struct.pack(">Q", start)])
    while True:
        delimiter, number, payload = dealer.recv_multipart()
        assert delimiter == b""
        if struct.unpack(">q", number)[0] == -1:
            assert payload == b""
            return
        show(b"", number, payload)


def slow(endpoint: str) -> None:
    host, port = endpoint.removeprefix("tcp://").split(":")
    c = socket.create_connection((host, int(port)))
    hello = bytes([0xFF, *[0] * 8, 0x7F, 3, 0]) + b"NULL".ljust(52, b"\0")
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
    c.sendall(hello + bytes([4, len(ready)]) + ready + b"\x00\x01\x01")
    print(json.dumps({"connected": True}), flush=True)
    time.sleep(3600)


match sys.argv[1:]:
    case ["--replay", endpoint, start]:
        replay(endpoint, int(start))
    case ["--slow", endpoint]:
        slow(endpoint)
    case [endpoint, topic]:
        follow(endpoint, topic)
