"""The listening sockets of a process: connections that arrive together are accepted together, and at shutdown
none that has arrived is lost."""

import asyncio
import ctypes
import os
import signal
import socket
import struct
import sys
from collections import deque
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from time import monotonic
from typing import Any

import uvicorn
from uvicorn.supervisors import multiprocess

# A thread prepares long documents. After each system call the event loop waits for that thread to release the
# interpreter, by default for 5 ms. A request makes a dozen system calls.
SWITCH_SECONDS = 0.0005
ACCEPTED_AT_ONCE = 256  # connections
INCOMPLETE_AT_ONCE = 32  # of these with an incomplete head, that are read in an iteration of the loop
MAX_USUAL_HEAD = 4096  # bytes; a longer head counts as incomplete
HANDSHAKE_SECONDS = 0.1  # at shutdown, for connections that have begun
JOIN_SECONDS = 0.2  # until the process that waits for its workers looks for a signal
START_SECONDS = 300  # for a worker process to serve; a busy machine loads the program slowly
RETRY_SECONDS = 5  # after a worker process that could not start, as without its database
TRY_AGAIN = 1  # exit code; uvicorn's own is 3
SO_ATTACH_FILTER = 26  # of Linux; Python has no name for it
# A filter in classic BPF, which drops each segment that begins a connection.
DROP_NEW = b"".join(
    struct.pack("HBBI", *each)
    for each in [
        (0x30, 0, 0, 13),  # load the flags
        (0x54, 0, 0, 0x12),  # keep SYN and ACK
        (0x15, 0, 1, 0x02),  # unless only SYN is left, skip one instruction
        (0x06, 0, 0, 0),  # drop the segment
        (0x06, 0, 0, 0xFFFFFFFF),  # receive it
    ]
)


class Config(uvicorn.Config):
    ending: Event | None = None  # of several processes: set when all of them end


class AcceptingServer(uvicorn.Server):
    """uvloop accepts one connection in each iteration of the loop. At twice the capacity, the last of 1,024
    clients that connected together waited for 8 seconds. So this server also accepts from a duplicate of each
    socket. Thousands of connections whose first request is incomplete do not delay the others: it reads
    some of them in each iteration."""

    config: Config

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            raise SystemExit(TRY_AGAIN) from None
        sys.setswitchinterval(SWITCH_SECONDS)
        loop = asyncio.get_running_loop()
        listening = [each for server in self.servers for each in server.sockets]
        self.incomplete: deque[socket.socket] = deque()  # accepted connections that are not read yet
        self.listeners = [socket.socket(fileno=os.dup(each.fileno())) for each in listening]
        for listener in self.listeners:
            loop.add_reader(listener, self.accept_waiting, listener)

    def accept_waiting(self, listener: socket.socket) -> None:
        is_scheduled = bool(self.incomplete)
        for each in accept_some(listener, ACCEPTED_AT_ONCE):
            if is_incomplete(each):
                self.incomplete.append(each)
            else:
                self.start_connecting(each)
        if not is_scheduled:
            self.connect_incomplete()

    def connect_incomplete(self) -> None:
        for _ in range(min(len(self.incomplete), INCOMPLETE_AT_ONCE)):
            self.start_connecting(self.incomplete.popleft())
        if self.incomplete:
            asyncio.get_running_loop().call_soon(self.connect_incomplete)

    def start_connecting(self, accepted: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self.connect(accepted))
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    async def connect(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # the client has gone
            await asyncio.get_running_loop().connect_accepted_socket(self.make_protocol, accepted)

    def make_protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        return kind(self.config, self.server_state, self.lifespan.state)  # type: ignore[no-any-return]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """While a process drains, each response closes its connection, and every request needs a new one.
        When the socket is closed, the system resets the connections that wait in its queue. So the system
        first begins no more of them; a client tries again after one second."""
        ending = self.config.ending
        if sys.platform == "linux" and (ending is None or ending.is_set()):
            for listener in self.listeners:
                drop_new_connections(listener)
            await asyncio.sleep(HANDSHAKE_SECONDS)
        for server in self.servers:
            server.close()  # the loop accepts no more, but the duplicates keep the queue
        for listener in self.listeners:
            asyncio.get_running_loop().remove_reader(listener)
            while accepted := accept_some(listener, ACCEPTED_AT_ONCE):
                await asyncio.gather(*map(self.connect, accepted))
            listener.close()
        incomplete, self.incomplete = self.incomplete, deque()  # which `connect_incomplete` would connect too
        await asyncio.gather(*map(self.connect, incomplete))
        await super().shutdown(sockets)


def accept_some(listener: socket.socket, most: int) -> list[socket.socket]:
    accepted: list[socket.socket] = []
    with suppress(OSError):  # nothing waits any more
        while len(accepted) < most:
            accepted.append(listener.accept()[0])
    for each in accepted:
        each.setblocking(False)
    return accepted


def is_incomplete(accepted: socket.socket) -> bool:
    """Whether a part of a request has arrived."""
    try:
        data = accepted.recv(MAX_USUAL_HEAD, socket.MSG_PEEK)
    except OSError:  # nothing has arrived
        return False
    return bool(data) and b"\r\n\r\n" not in data


def drop_new_connections(listener: socket.socket) -> None:
    program = ctypes.create_string_buffer(DROP_NEW, len(DROP_NEW))
    filter_program = struct.pack("HP", len(DROP_NEW) // 8, ctypes.addressof(program))
    with suppress(OSError):  # a sandbox may forbid it
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_program)


class Worker(multiprocess.Process):
    """Its process answers each ping with whether it serves, once it has begun to load the program."""

    is_pinged = False
    has_served = False
    replace_at: float | None = None  # set once it has ended

    @property
    def server(self) -> uvicorn.Server:
        if self._server is None:
            self._server = AcceptingServer(self.config)
        return self._server

    def start(self) -> None:
        self.deadline = monotonic() + START_SECONDS
        super().start()

    def fault(self) -> str:
        """Why the process has to be replaced. Does not wait for an answer: others would wait too."""
        if (code := self.exitcode) is not None:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            return how if self.has_served else f"{how} before it served"
        while self.parent_conn.poll():
            self.has_served |= self.parent_conn.recv()
            self.is_pinged = False
            if self.has_served:
                self.deadline = monotonic() + self.config.timeout_worker_healthcheck
        if not self.is_pinged:
            self.parent_conn.send(b"ping")
            self.is_pinged = True
        if monotonic() < self.deadline:
            return ""
        if self.has_served:
            return f"did not respond for {self.config.timeout_worker_healthcheck} s"
        return f"did not start within {START_SECONDS} s"


class Workers(multiprocess.Multiprocess):
    config: Config
    processes: list[Worker]  # type: ignore[assignment]
    have_failed = False

    def keep_subprocess_alive(self) -> None:
        """Unlike uvicorn, which ends all processes when one cannot start, tries again while another is left:
        without the database no process can start, but a process that already serves waits for it."""
        if self.should_exit.is_set():
            return
        for each in self.processes:
            if each.replace_at is None and (fault := each.fault()):
                each.kill()
                each.process.join()
                each.replace_at = monotonic() + (0 if each.has_served else RETRY_SECONDS)
                multiprocess.logger.error("Child process [%s] %s", each.pid, fault)
        if all(each.replace_at and not each.has_served for each in self.processes):
            multiprocess.logger.error("No child process could start, stopping the parent process")
            self.have_failed = True
            self.should_exit.set()
            return
        is_serving = any(each.has_served and each.replace_at is None for each in self.processes)
        for index, each in enumerate(self.processes):
            if each.replace_at is None or each.replace_at > monotonic():
                continue
            # Processes that start at different moments would never all have failed at the same moment.
            if each.has_served or is_serving:
                self.processes[index] = Worker(self.config, self.sockets)
                self.processes[index].start()

    def terminate_all(self) -> None:
        for each in self.sockets:  # this process accepts no connections, so they must not wait for it
            each.close()
        if self.config.ending:
            self.config.ending.set()
        super().terminate_all()

    def join_all(self) -> None:
        """Passes a second signal on, which skips the rest of the pause in each worker."""
        for each in self.processes:
            while each.exitcode is None:
                each.process.join(JOIN_SECONDS)
                if self.signal_queue:
                    self.signal_queue.clear()
                    super().terminate_all()


def run(app: Any, **options: Any) -> None:
    """Like `uvicorn.run`, which has no setting for the class of the server."""
    config = Config(app, **options)
    server = AcceptingServer(config)
    has_failed = False
    with suppress(KeyboardInterrupt):
        if config.workers == 1:
            server.run()
            has_failed = not server.started
        else:
            multiprocess.Process = Worker  # type: ignore[misc]
            config.ending = get_context("spawn").Event()
            workers = Workers(config, [config.bind_socket()])
            workers.run()
            has_failed = workers.have_failed
    if has_failed:
        sys.exit(TRY_AGAIN)
