from gql import Client
from gql.transport.websockets import WebsocketsTransport


def over_gql(url: str, token: str) -> Client:
    transport = WebsocketsTransport(
        url=url.replace("http", "ws", 1),
        init_payload={"authorization": f"bearer {token}"},
    )
    return Client(transport=transport)
