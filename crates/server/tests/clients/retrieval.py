"""skyrl-gym, verl's client and rLLM's dialect against a server: python retrieval.py URL VERL_FILE"""

import importlib.util
import json
import sys

import requests

URL, VERL = sys.argv[1], sys.argv[2]
lines = []
for i in range(25):
    lines.append(json.dumps({"index": {"_index": "t-retrieval", "_id": str(i)}}))
    lines.append(json.dumps({"contents": f'"Title {i}"\npassage {i} about {"rust" if i % 5 == 0 else "gardens"}'}))
requests.delete(f"{URL}/t-retrieval")
answer = requests.post(f"{URL}/_bulk?refresh=true", data="\n".join(lines) + "\n", headers={"content-type": "application/x-ndjson"}).json()
assert not answer["errors"]

from skyrl_gym.tools.search import SearchToolGroup, call_search_api

response, error = call_search_api(f"{URL}/retrieve", "rust", topk=3, return_scores=True)
assert error is None and len(response["result"]) == 1 and len(response["result"][0]) == 3, response
assert response["result"][0][0]["document"]["contents"].startswith('"Title')
response, error = call_search_api(f"{URL}/retrieve", "nothingofthekind")
assert error is None and response["result"] == [[]]
shown = SearchToolGroup(search_url=f"{URL}/retrieve", topk=2, log_requests=False).search("rust")
assert "passage" in shown, shown
print("skyrl-gym: ok")

spec = importlib.util.spec_from_file_location("verl_search", VERL)
verl = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verl)
response, error = verl.call_search_api(f"{URL}/retrieve", ["rust", "nothingofthekind", "gardens"], topk=2)
assert error is None and [len(hits) for hits in response["result"]] == [2, 0, 2]
text, about = verl.perform_single_search_batch(f"{URL}/retrieve", ["rust", "gardens"], topk=2)
assert "Title" in text and about["status"] == "success", (text, about)
print("verl: ok")

bare = requests.post(f"{URL}/retrieve", json={"queries": ["rust"], "topk": None, "return_scores": False}).json()
assert len(bare["result"][0]) == 3 and "contents" in bare["result"][0][0]
flat = requests.post(f"{URL}/retrieve", json={"query": "rust", "top_k": 2}).json()
assert len(flat["results"]) == 2 and flat["results"][0]["score"] > 0 and flat["results"][0]["document"]["id"]
assert requests.get(f"{URL}/health").json()["status"] == "available"
requests.delete(f"{URL}/t-retrieval")
print("rLLM: ok")
