#pragma once

namespace osb::sandboxd::testing {

// Speaks the egress process's side of the link with sandboxd. A connection to the policy API of a sandbox is a console;
// each line is a command:
//   received       answers with all messages so far, as one JSON array
//   ids            answers with [user, group, capabilities, descriptors]
//   send {...}     sends the message, answers with the next one of type "answer"
//   raw TEXT       sends a frame with that text
inline constexpr const char* kEgressPeer = R"py(#!/usr/bin/python3
import json
import os
import socket
import struct
import sys

link = socket.socket(fileno=3)
received = []


def send(text):
    data = text.encode()
    link.sendall(struct.pack("<I", len(data)) + data)


def read_exactly(size):
    data, descriptors = b"", []
    while len(data) < size:
        part, fds, _, _ = socket.recv_fds(link, size - len(data), 4)
        if not part:
            sys.exit(0)
        data += part
        descriptors += fds
    return data, descriptors


def next_message():
    head, fds = read_exactly(4)
    length = struct.unpack("<I", head)[0]
    body, more = read_exactly(length & 0x7FFFFFFF)
    message = json.loads(body)
    received.append(message)
    return message, fds + more


def capabilities():
    return [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")][0]


def serve(console):
    stream = console.makefile("rw")
    for line in stream:
        command, _, rest = line.strip().partition(" ")
        answer = None
        if command == "received":
            answer = received
        elif command == "ids":
            answer = [os.getuid(), os.getgid(), capabilities(), sorted(int(n) for n in os.listdir("/proc/self/fd"))]
        elif command == "send":
            send(rest)
            while True:
                answer = next_message()[0]
                if answer["type"] == "answer":
                    break
        elif command == "raw":
            send(rest)
            answer = []
        stream.write(json.dumps(answer) + "\n")
        stream.flush()


send('{"type":"ready"}')
while True:
    message, descriptors = next_message()
    if message["type"] == "connection":
        serve(socket.socket(fileno=descriptors[0]))
)py";

}  // namespace osb::sandboxd::testing
