"""Promise: the private and undocumented attributes of libraries that the service uses exist in the locked
versions.

A failure after an upgrade names what is missing. Then compare the code that uses it with the new version.
"""

import inspect
import re
import tomllib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import httptools
import pytest
from graphql import GraphQLResolveInfo, ValidationContext
from graphql.language import parser
from graphql.validation import validation_context
from starlette.routing import Router
from strawberry.asgi import ASGIWebSocketAdapter, GraphQL
from strawberry.schema.schema import Schema, StrawberryGraphQLCoreExecutionContext
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import BaseGraphQLTransportWSHandler
from strawberry.types import ExecutionContext, Info
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.server import ServerProtocol
from websockets.streams import StreamReader

USED: list[tuple[Any, str]] = [
    # app/server/protocol.py, timeouts.py, request_cycle.py and rejections.py
    (httptools_impl, "STATUS_LINE"),
    (
        httptools_impl.HttpToolsProtocol,
        "_should_upgrade _unsupported_upgrade_warning app app_state asgi_version client connection_lost"
        " connection_made connections data_received eof_received flow handle_websocket_upgrade headers loop"
        " on_body on_header on_headers_complete on_message_begin on_message_complete on_response_complete"
        " parser"
        " pause_writing scheme scope send_400_response server server_state shutdown tasks timeout_keep_alive"
        " transport url",
    ),
    (httptools.HttpRequestParser, "set_dangerous_leniencies should_keep_alive should_upgrade"),
    (httptools, "HttpParserUpgrade"),
    (FlowControl, "drain pause_reading read_paused resume_reading resume_writing write_paused"),
    (ServerState, "default_headers total_requests"),
    # app/server/sockets.py
    (
        WebSocketsSansIOProtocol,
        "close_sent close_timer conn connection_lost connection_made data_received disconnected"
        " handle_parser_exception handshake_initiated keepalive_timeout loop pause_writing queue read_paused"
        " receive"
        " resume_writing run_asgi transport writable",
    ),
    (
        ServerProtocol,
        "available_extensions close_sent data_to_send fail logger max_message_size parser parser_exc reader"
        " receive_data recv_frame",
    ),
    (StreamReader, "buffer"),
    # app/engine, app/schema
    (
        Schema,
        "_create_execution_context _prepare_operation_async _process_errors _schema _execute_operation"
        " exception_handlers execute execution_context_class get_extensions schema_converter",
    ),
    (
        StrawberryGraphQLCoreExecutionContext,
        "_relevant_sub_fields build build_per_event_executor build_resolve_info complete_object_value",
    ),
    (ExecutionContext, "_provided_operation_name extensions_results graphql_document pre_execution_errors"),
    (Info, "_raw_info"),
    (GraphQLResolveInfo, "_fields _make"),
    (ValidationContext, "_type_info _variable_usages get_variable_usages"),
    (import_module("graphql.validation.validate"), "ValidationAbortedError query_document_keys_to_validate"),
    (validation_context, "VariableUsage VariableUsageVisitor"),
    (parser.Parser, "parse_document"),
    (GraphQL, "graphql_transport_ws_handler_class is_websocket_origin_allowed websocket_adapter_class"),
    (ASGIWebSocketAdapter, "close iter_json send_json view ws"),
    (
        BaseGraphQLTransportWSHandler,
        "connection_acknowledged forget_id handle_invalid_message handle_message handle_subscribe"
        " max_subscriptions_per_connection operations run_operation send_message",
    ),
    # app/main.py
    (Router, "redirect_slashes"),
]

with suppress(ImportError):  # an optional dependency
    import asyncpg

    # app/db/drivers/hosts.py and connections.py
    statement_cache = "_clear_entry_callback _entries _maybe_cleanup _on_remove"
    USED.append((asyncpg.connect_utils, "_read_password_file"))
    USED.append((asyncpg.Connection, "_protocol _stmt_cache _transport"))
    USED.append((asyncpg.protocol.protocol.BaseProtocol, "get_settings"))
    USED.append((asyncpg.protocol.protocol.ConnectionSettings, "register_data_types"))
    USED.append((asyncpg.connection._StatementCache, statement_cache))
    USED.append((asyncpg.connection._StatementCacheEntry, "_statement"))


def has(owner: Any, name: str) -> bool:
    """Whether `owner` has the attribute, or a class assigns it to its instances."""
    assigned = re.compile(
        rf"\b(?:self|inst)\.{name}\b(?:: [^=]+)?(?:, [\w., ]+)? = |^\s+{name}: ", re.MULTILINE
    )
    classes = owner.__mro__[:-1] if inspect.isclass(owner) else ()
    return hasattr(owner, name) or any(
        assigned.search(inspect.getsource(each))
        for each in classes
        if not each.__module__.startswith(("builtins", "httptools", "asyncio"))
    )


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in USED for name in names.split()], ids=str
)
def test_a_private_part_exists(owner: Any, name: str) -> None:
    assert has(owner, name)


def test_a_missing_part_would_be_found() -> None:
    assert not has(httptools_impl.HttpToolsProtocol, "_should_downgrade")


@pytest.mark.parametrize(
    "name", ["asyncpg", "graphql-core", "httptools", "strawberry-graphql", "uvicorn", "websockets"]
)
def test_a_library_with_private_parts_is_pinned_to_a_minor_version(name: str) -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["postgres"]]
    [named] = [each for each in needed if re.match(rf"{name}\b", each)]

    assert re.search(r">=(\d+)\.(\d+),<\1\.\d+$", named)
