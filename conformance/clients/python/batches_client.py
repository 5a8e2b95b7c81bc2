"""openai: files and batches, of the synchronous and the asynchronous client."""

import asyncio
import io
import json
import time

import openai

from checks import *

client = openai.OpenAI(base_url=KEYED_URL + "/v1", api_key=KEY)
plain = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)

ENDPOINT = "/v1/chat/completions"


def line(name, url=ENDPOINT, **body):
    return {"custom_id": name, "method": "POST", "url": url, "body": body}


def chat(name, **more):
    return line(name, model="tgi", messages=MESSAGES, temperature=0, **more)


def keep(*lines):
    data = "\n".join(json.dumps(one) for one in lines).encode()
    return client.files.create(file=("in.jsonl", io.BytesIO(data)), purpose="batch"), data


def wait(batch):
    until = time.monotonic() + 60
    while batch.status in ("validating", "in_progress", "finalizing", "cancelling"):
        assert time.monotonic() < until, f"the batch is still {batch.status}"
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    return batch


def rows(file):
    return [json.loads(one) for one in client.files.content(file).text.splitlines()]


@check("files: create, retrieve, list, content, delete")
def _():
    f, data = keep(chat("one"))
    same((f.object, f.bytes, f.filename, f.purpose, f.status), ("file", len(data), "in.jsonl", "batch", "processed"))
    same(client.files.retrieve(f.id), f)
    assert f.id in [one.id for one in client.files.list(purpose="batch")]
    same(client.files.content(f.id).read(), data)
    gone = client.files.delete(f.id)
    same((gone.id, gone.deleted), (f.id, True))
    try:
        client.files.retrieve(f.id)
        raise AssertionError("a file that was deleted is there")
    except openai.NotFoundError as e:
        same(e.code, "not_found")


@check("files: pages of a list")
def _():
    made = [keep(chat(str(i)))[0].id for i in range(5)]
    same([one.id for one in client.files.list(limit=2, order="asc")], made)  # the client asks for the next pages
    for one in made:
        client.files.delete(one)


@check("batches: lines are answered in order, errors in a file of their own")
def _():
    f, _ = keep(chat("b"), line("bad", messages=[]), chat("a", max_tokens=2), line("where", url="/v1/completions"))
    b = wait(client.batches.create(input_file_id=f.id, endpoint=ENDPOINT, completion_window="24h"))
    same(b.status, "failed")  # a line is for another endpoint
    same((b.errors.data[0].line, b.errors.data[0].param), (4, "url"))
    f, _ = keep(chat("b"), line("bad", messages=[]), chat("a", max_tokens=2))
    b = client.batches.create(input_file_id=f.id, endpoint=ENDPOINT, completion_window="24h", metadata={"k": "v"})
    same((b.object, b.endpoint, b.metadata), ("batch", ENDPOINT, {"k": "v"}))
    b = wait(b)
    same(b.status, "completed")
    same((b.request_counts.total, b.request_counts.completed, b.request_counts.failed), (3, 2, 1))
    good, bad = rows(b.output_file_id), rows(b.error_file_id)
    same([one["custom_id"] for one in good], ["b", "a"])
    holds(good[0]["response"]["body"]["choices"][0]["message"]["content"], ANSWER)
    same(good[1]["response"]["body"]["usage"]["completion_tokens"], 2)
    same([one["custom_id"] for one in bad], ["bad"])
    same(bad[0]["response"]["status_code"] // 100, 4)
    assert b.id in [one.id for one in client.batches.list(limit=1)]


@check("batches: responses, completions")
def _():
    for url, body in {"/v1/responses": {"input": QUESTION, "temperature": 0},
                      "/v1/completions": {"prompt": "a", "max_tokens": 2, "temperature": 0}}.items():
        f, _ = keep(line("x", url=url, model="tgi", **body))
        b = wait(client.batches.create(input_file_id=f.id, endpoint=url, completion_window="1h"))
        same(b.status, "completed")
        same(rows(b.output_file_id)[0]["response"]["status_code"], 200)


@check("batches: cancel")
def _():
    f, _ = keep(*[chat(str(i), max_tokens=300, logit_bias={"0": -100, "2": -100}) for i in range(200)])
    b = client.batches.create(input_file_id=f.id, endpoint=ENDPOINT, completion_window="24h")
    assert client.batches.cancel(b.id).status in ("cancelling", "cancelled")
    b = wait(b)
    same(b.status, "cancelled")
    try:
        client.batches.cancel(b.id)
        raise AssertionError("a batch that is over was cancelled")
    except openai.ConflictError as e:
        holds(e.message, "cancelled")


@check("batches: refused")
def _():
    f, _ = keep(chat("one"))
    right = {"input_file_id": f.id, "endpoint": ENDPOINT, "completion_window": "24h"}
    for name, value in (("endpoint", "/v1/moderations"), ("completion_window", "soon")):
        try:
            client.batches.create(**{**right, name: value})
            raise AssertionError(f"{name} {value} was taken")
        except openai.BadRequestError as e:
            same(e.param, name)
    try:
        plain.files.list()
        raise AssertionError("files are switched off")
    except openai.NotFoundError as e:
        holds(e.message, "batches.folder")


@check("batches: the asynchronous client")
def _():
    async def ask():
        async with openai.AsyncOpenAI(base_url=KEYED_URL + "/v1", api_key=KEY) as c:
            data = json.dumps(chat("one")).encode()
            f = await c.files.create(file=("in.jsonl", data), purpose="batch")
            b = await c.batches.create(input_file_id=f.id, endpoint=ENDPOINT, completion_window="24h")
            return wait(b)
    same(asyncio.run(ask()).status, "completed")


run()
