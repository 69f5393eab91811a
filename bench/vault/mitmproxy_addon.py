"""Puts the credential into requests, as the vault does. Loaded by mitmdump."""

SECRET = "s3cret-of-the-benchmark"


def request(flow):
    flow.request.headers["Authorization"] = f"Bearer {SECRET}"


def running():
    print("listening", flush=True)
