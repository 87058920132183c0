"""The story every client is led through: each tool works once and refuses once, a held call is given up, and a
pod restarts in the middle."""

import json
import time

NOBODY = "00000000-0000-7000-8000-000000000000"


def tell(open_client, pod, hangs_up):
    """`open_client(key or None)` gives a client (speakers.py) that sends that key as a header, or none. `hangs_up`:
    it closes the connection of a call it gives up, as the modern era wants it; in the legacy one clients send
    notifications/cancelled instead, which reaches any pod and so ends nothing here."""
    tale = Tale()
    anyone = open_client(None)
    listed = anyone.list()

    # An agent that has only the URL registers and goes on with its key as an argument; the other one sets a header.
    ada = tale.works(anyone, "register", agent_name="ada")
    bob = tale.works(anyone, "register", agent_name="bob", owner_key=ada["owner_key"])
    tale.refuses(anyone, "register", "unknown_field", agent_nam="eve")
    as_ada = {"box_key": ada["api_key"]}
    as_bob = open_client(bob["api_key"])
    assert as_bob.list() == listed

    assert tale.works(anyone, "who_am_i", **as_ada)["agent_id"] == ada["agent_id"]
    assert tale.works(as_bob, "who_am_i")["agent_id"] == bob["agent_id"]
    tale.refuses(anyone, "who_am_i", "unauthorized")
    tale.refuses(anyone, "who_am_i", "unauthorized", box_key="wpa_nonsense")

    cursor = tale.works(as_bob, "mailbox_check")["next_since"]
    tale.refuses(as_bob, "mailbox_check", "validation_error", limit=0)
    give_up(as_bob, cursor, pod, hangs_up)
    hold(as_bob, cursor, pod)
    letter = {"recipient_agent_id": bob["agent_id"], "body": "hello", "parts": [{"text": "a part"}]} | as_ada
    sent = tale.works(anyone, "mailbox_send", **letter)
    tale.refuses(anyone, "mailbox_send", "not_found", **letter | {"recipient_agent_id": NOBODY})
    page = tale.ended(as_bob, "mailbox_check")
    assert [message["id"] for message in page["messages"]] == [sent["message_id"]], page
    assert page["wait_applied"] == 25, page

    # Some hosts show progress, which is a stream here, and some do not.
    followed = tale.works(as_bob, "mailbox_stream", since=cursor, wait=1)
    assert (followed["kind"], followed["cursor"]) in [
        ("timeout", page["next_since"]),
        ("no_progress_token", cursor),
    ], followed
    tale.refuses(as_bob, "mailbox_stream", "validation_error", since=-1)

    ids = [sent["message_id"]]
    claimed = tale.works(as_bob, "mailbox_claim", message_ids=ids)
    assert [message["parts"] for message in claimed["messages"]] == [[{"text": "a part"}]], claimed
    tale.refuses(as_bob, "mailbox_claim", "validation_error", lease_seconds=0)
    tale.refuses(as_bob, "mailbox_ack", "validation_error", message_ids=[])

    # A pod that goes away answers held reads, and the same client objects go on with the next one.
    hold(as_bob, page["next_since"], pod)
    pod.restart()
    cut = tale.ended(as_bob, "mailbox_check")
    assert (cut["messages"], cut["next_since"]) == ([], page["next_since"]), cut
    acked = tale.works(as_bob, "mailbox_ack", message_ids=ids, reply_text="hello back", ack_id="1")
    assert acked["reply"]["recipient_agent_id"] == ada["agent_id"], acked
    mail = tale.works(anyone, "mailbox_check", **as_ada)["messages"]
    assert mail[-1]["id"] == acked["reply"]["message_id"], mail

    # Nobody listens there: a failed attempt is an answer. Nothing leaves this machine.
    endpoint = {"url": "https://127.0.0.1:9/mail", "secret": "a long random text"}
    assert tale.works(as_bob, "webhook_register", **endpoint)["state"] == "pending"
    tale.refuses(as_bob, "webhook_register", "validation_error", **endpoint | {"url": "http://example.com/"})
    assert tale.works(as_bob, "webhook_verify")["verified"] is False
    assert tale.works(as_bob, "webhook_delete")["deleted"] is True
    tale.refuses(as_bob, "webhook_verify", "not_found")
    tale.refuses(as_bob, "webhook_delete", "not_found")

    owner = {"owner_key": ada["owner_key"], "agent_id": ada["agent_id"]}
    renewed = tale.works(anyone, "renew_agent_key", **owner)
    assert tale.works(anyone, "who_am_i", box_key=renewed["api_key"])["agent_id"] == ada["agent_id"]
    tale.refuses(anyone, "who_am_i", "unauthorized", **as_ada)
    tale.refuses(anyone, "renew_agent_key", "unauthorized", owner_key="wpo_nonsense")

    assert tale.worked == tale.refused == set(listed), (listed, tale.worked, tale.refused)


def hold(client, since, pod, wait=25):
    """Asks for mail with patience, and returns once the pod holds the call."""
    assert pod.held_reads() == 0, "a read is held already"
    client.ask("mailbox_check", {"since": since, "wait": wait})
    until_held(1, pod)


def give_up(client, since, pod, hangs_up):
    """A client that gives up a held call hears so at once, and goes on. The pod lets go of the call with the
    connection or, where the client leaves that open, at the end of the wait; nothing was consumed."""
    hold(client, since, pod, wait=25 if hangs_up else 2)
    client.cancel()
    answer = client.answer()
    assert answer == {"cancelled": True}, answer
    until_held(0, pod, seconds=10)


def until_held(count, pod, seconds=30):
    deadline = time.monotonic() + seconds
    while pod.held_reads() != count:
        assert time.monotonic() < deadline, f"the pod holds {pod.held_reads()} calls, not {count}"


class Tale:
    """What was called, and how it went."""

    def __init__(self):
        self.worked, self.refused = set(), set()

    def works(self, client, tool, **arguments):
        client.ask(tool, arguments)
        return self.ended(client, tool)

    def ended(self, client, tool):
        """The structured answer of a call under way."""
        answer = client.answer()
        assert answer.get("failed") is False, (tool, answer)
        assert json.loads(answer["text"]) == answer["structured"], (tool, answer)
        self.worked.add(tool)
        return answer["structured"]

    def refuses(self, client, tool, code, **arguments):
        """A refusal reaches the caller as the tool's own words, not as something the client threw."""
        client.ask(tool, arguments)
        answer = client.answer()
        assert answer.get("failed") is True, (tool, answer)
        assert json.loads(answer["text"])["error"]["code"] == code, (tool, answer)
        assert answer["structured"]["error"]["code"] == code, (tool, answer)
        self.refused.add(tool)
