"""A local HTTP server that speaks as an OpenAI-compatible endpoint, well or badly."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERDICT = {"reasoning": "same", "kind": "equivalent", "is_duplicate": True, "confidence": 0.9}


@dataclass
class Request:
    """What a client sent."""

    body: dict[str, Any]
    headers: dict[str, str]
    time: float
    path: str = "/v1/chat/completions"

    @property
    def format(self) -> str | None:
        found = self.body.get("response_format")
        return found["type"] if found else None

    @property
    def texts(self) -> tuple[str, str]:
        """Item and chunk, as the client framed them."""
        reported = self.body["messages"][1]["content"]
        item, chunk = (
            re.search(rf"<{name} (\w+)>\n(.*)\n</{name} \1>", reported, re.DOTALL)
            for name in ("item", "chunk")
        )
        assert item is not None
        assert chunk is not None
        return item[2], chunk[2]


@dataclass
class Reply:
    """What the server sends: a body, whole or cut, perhaps late."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: bool = False


def completion(content: Any, tokens: int | None = 10, **message: Any) -> Reply:
    finish = message.pop("finish_reason", "stop")
    reported = {"role": "assistant", "content": content, **message}
    body: dict[str, Any] = {
        "id": "c", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": reported}],
    }  # fmt: skip
    if tokens is not None:
        part = {"prompt_tokens": tokens - 1, "completion_tokens": 1, "total_tokens": tokens}
        body["usage"] = part
    return Reply(json.dumps(body).encode())


def verdict(**changes: Any) -> Reply:
    return completion(json.dumps({**VERDICT, **changes}))


def fault(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return Reply(body, status, {key.replace("_", "-"): value for key, value in headers.items()})


class Server:
    """The endpoint; `behave` says what a request gets, and may be replaced."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.behave: Callable[[Request], Reply] = lambda _: verdict()
        self.most_at_once = 0
        self.base_url = ""
        self.stopped = threading.Event()
        self._at_once = 0
        self._lock = threading.Lock()

    def script(self, *replies: Reply) -> None:
        """Send these in turn, and the last one ever after."""
        self.behave = lambda _: replies[min(len(self.requests), len(replies)) - 1]

    @contextmanager
    def serving(self, request: Request) -> Iterator[Reply]:
        with self._lock:
            self.requests.append(request)
            reply = self.behave(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self.stopped.wait(reply.delay)
            yield reply
        finally:
            with self._lock:
                self._at_once -= 1


@contextmanager
def running() -> Iterator[Server]:
    """Run the server on a free port."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.path in ("/v1/chat/completions", "/v1/embeddings")
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {key.lower(): value for key, value in self.headers.items()}
            with server.serving(Request(body, headers, time.monotonic(), self.path)) as reply:
                data = reply.body
            self.send_response(reply.status)
            for key, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if reply.cut else data)
            self.close_connection = reply.cut

        def log_message(self, *_: Any) -> None:
            pass

    class Http(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # the client has gone

    http = Http(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    server.base_url = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield server
    finally:
        server.stopped.set()
        http.shutdown()
        thread.join()
        http.server_close()
