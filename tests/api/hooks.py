"""What schemathesis needs to know beyond openapi.yaml: keys that stand, ids that exist, and which of two to name.

Every operation has an agent, an owner and mail of its own, so that none can take another's key away.
"""

import json
import os
import urllib.request

import schemathesis
from schemathesis import GenerationMode

POD = os.environ["POD"]
# Letters in each agent's mailbox: their ids stand where openapi.yaml wants a message.
LETTERS = 5


class Agent:
    """One that is registered, has mail and a further key, and knows a peer."""

    def __init__(self):
        self.registered = post("/api/v1/onboard")
        self.id = self.registered["agent_id"]
        self.peer = post("/api/v1/onboard")
        letter = {"recipient_agent_id": self.id, "body": "hello"}
        from_peer = {"Authorization": f"Bearer {self.peer['api_key']}"}
        letters = [post("/api/v1/mailbox/messages", letter, from_peer) for _ in range(LETTERS)]
        self.messages = [letter["message_id"] for letter in letters]
        owner = {"X-Owner-Key": self.registered["owner_key"]}
        self.key_id = post(f"/api/v1/agents/{self.id}/keys", {}, owner)["key_id"]
        webhook = {"url": "https://127.0.0.1:8443/hook", "secret": "sixteen and more characters"}
        own = {"Authorization": f"Bearer {self.registered['api_key']}"}
        post(f"/api/v1/agents/{self.id}/webhook", webhook, own, "PUT")

    def credential(self, operation):
        """The header that the operation asks for."""
        schemes = {name for choice in operation.definition.raw.get("security", []) for name in choice}
        if "agentKey" in schemes:
            return {"Authorization": f"Bearer {self.registered['api_key']}"}
        return {"X-Owner-Key": self.registered["owner_key"]} if "ownerKey" in schemes else {}


def post(path, arguments=None, headers=None, method="POST"):
    body = json.dumps(arguments or {}).encode()
    headers = {"Content-Type": "application/json"} | (headers or {})
    asked = urllib.request.Request(POD + path, body, headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)


@schemathesis.auth(refresh_interval=10**6, cache_by_key=lambda case, _: case.operation.label)
class OwnAgent:
    def get(self, case, _context):
        agents[case.operation.label] = Agent()
        return agents[case.operation.label]

    def set(self, case, agent, _context):
        case.headers.update(agent.credential(case.operation))


agents = {}


@schemathesis.hook
def before_call(_context, case, _kwargs):
    """Makes what was meant to be accepted acceptable; what was meant to be refused is sent as it is."""
    let_it_end(case)
    agent = agents.get(case.operation.label)
    if agent is None or case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    known = {
        "agent_id": agent.id,
        "sender_agent_id": agent.peer["agent_id"],
        "message_id": agent.messages[0],
        "key_id": agent.key_id,
    }
    for name in case.path_parameters or {}:
        case.path_parameters[name] = known.get(name, case.path_parameters[name])
    if isinstance(case.body, dict):
        settle(case.body, agent)


def let_it_end(case):
    """A stream that is accepted lasts until the pod is replaced, and a call may be held: nobody waits for that here."""
    if "stream" not in case.path and "check" not in case.path and case.path != "/api/v1/mailbox/messages":
        return
    if case.method == "GET":
        case.query = dict(case.query or {}) | {"wait": "0"}
    elif isinstance(case.body, dict):
        if isinstance(case.body.get("wait"), (int, float, str, type(None))):
            case.body["wait"] = 0
    elif not isinstance(case.body, (list, str, int, float, bool, bytes, type(None))):
        # Left out: what a tool does then is the same as with an empty object.
        case.body = {"wait": 0}


def settle(body, agent):
    """Keys come by header, one recipient is named, and ids are those of messages, agents and their threads."""
    for credential in ("box_key", "owner_key"):
        body.pop(credential, None)
    if "recipient_agent_id" in body or "recipient_agent_name" in body or "body" in body:
        body.pop("recipient_agent_name", None)
        body["recipient_agent_id"] = agent.peer["agent_id"]
    for name, known in (("agent_id", agent.id), ("in_reply_to", agent.messages[0]), ("message_ids", agent.messages)):
        if name in body:
            body[name] = known


@schemathesis.hook
def after_call(_context, case, response):
    if 200 <= response.status_code < 300:
        with open(os.environ["SUCCEEDED"], "a") as notes:
            notes.write(f"{case.operation.label}\n")
