# SPDX-License-Identifier: Apache-2.0
"""A web service as many are: a checked query, objects made for the answer, JSON. Served by uvicorn."""

from fastapi import FastAPI, Query

app = FastAPI()


def order(number: int) -> dict[str, object]:
    items = [{"article": f"A{(number * 7919 + k) % 1000}", "count": 1 + (number + k) % 9} for k in range(1 + number % 5)]
    return {"number": number, "customer": f"customer {(number * 104729) % 211}", "items": items}


@app.get("/orders")
def orders(count: int = Query(ge=1, le=1000)) -> dict[str, object]:
    found = [order(number) for number in range(count)]
    return {"orders": found, "articles": sum(item["count"] for one in found for item in one["items"])}  # type: ignore
