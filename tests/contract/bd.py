"""A stand-in for Beads' `bd`: answers exactly the calls that conch makes, from the files beside it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
MODE = (HERE / "mode").read_text() if (HERE / "mode").exists() else "plain"


def answer(value: object) -> None:
    print(json.dumps({"schema_version": 1, "data": value} if MODE == "enveloped" else value))


with (HERE / "asked").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\n")
if (HERE / "lie").exists() and sys.argv[1] != "version":
    print((HERE / "lie").read_text())
    sys.exit()
ITEMS = json.loads((HERE / "items.json").read_text())
if MODE == "hanging":
    time.sleep(60)
elif MODE == "broken":
    sys.exit("bd: unknown option --json")
elif MODE == "not json":
    print("bd, the binary differ, version 3")
elif MODE == "another program":
    print('{"program": "binary differ"}')
elif sys.argv[1:] == ["version", "--json"]:
    answer({"version": "0.49.1", "build": "dev", "branch": "main"})
elif sys.argv[1:] == ["list", "--status", "in_progress", "--limit", "0", "--json"]:
    answer([item for item in ITEMS if item.get("status") == "in_progress"])
elif sys.argv[1:2] == ["show"] and sys.argv[3:] == ["--json"]:
    found = [item for item in ITEMS if item["id"] == sys.argv[2]]
    if not found:
        sys.exit(f"Error: no issue found matching {sys.argv[2]!r}")
    answer(found)
else:
    sys.exit(f"the stand-in knows no such call: {sys.argv[1:]}")
