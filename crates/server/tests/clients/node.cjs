// The clients of npm, and that of the Model Context Protocol, against a running server: node node.cjs URL FOLDER, where FOLDER has their packages.
"use strict";

const assert = require("node:assert/strict");
const path = require("node:path");
const { createRequire } = require("node:module");

const [url, folder] = process.argv.slice(2);
const load = createRequire(path.resolve(folder, "package.json"));

async function refused(call, status, type) {
  await assert.rejects(call, (error) => {
    assert.equal(error.meta.statusCode, status);
    assert.equal(error.meta.body.error.type, type);
    return true;
  });
}

// Versions 8 and 9 have the same calls. The first one checks who is there.
async function elasticsearch(name) {
  const { Client } = load(name);
  const client = new Client({ node: url, requestTimeout: 120_000 });
  const index = `t-${name}`;
  assert.equal((await client.info()).tagline, "You Know, for Search");
  await client.indices.delete({ index }, { ignore: [404] });
  await client.indices.create({ index, mappings: { properties: { tag: { type: "keyword" } } } });
  await refused(() => client.indices.create({ index }), 400, "resource_already_exists_exception");
  const documents = Array.from({ length: 600 }, (_, i) => ({ id: String(i), text: `document number ${i}`, tag: i % 2 ? "odd" : "even", n: i }));
  const done = await client.helpers.bulk({
    datasource: documents,
    onDocument: (document) => ({ index: { _index: index, _id: document.id } }),
    refreshOnCompletion: index,
  });
  assert.deepEqual([done.total, done.failed, done.successful], [600, 0, 600]);
  const found = await client.search({ index, query: { match_phrase: { text: "number 7" } } });
  assert.deepEqual(found.hits.hits.map((hit) => hit._id), ["7"]);
  assert.equal((await client.count({ index, query: { term: { tag: "odd" } } })).count, 300);
  let seen = 0;
  for await (const hit of client.helpers.scrollDocuments({ index, size: 250, query: { match_all: {} } })) {
    assert.ok(hit.text);
    seen += 1;
  }
  assert.equal(seen, 600);
  const pit = await client.openPointInTime({ index, keep_alive: "1m" });
  await client.update({ index, id: "7", doc: { n: 7000 }, refresh: true });
  const page = await client.search({ pit: { id: pit.id, keep_alive: "1m" }, sort: [{ n: "desc" }], size: 1 });
  assert.equal(page.hits.hits[0]._id, "599");
  assert.ok((await client.closePointInTime({ id: pit.id })).succeeded);
  const counted = await client.search({ index, size: 0, aggs: { tags: { terms: { field: "tag" } } } });
  assert.deepEqual(counted.aggregations.tags.buckets, [{ key: "even", doc_count: 300 }, { key: "odd", doc_count: 300 }]);
  await client.indices.putAlias({ index, name: `${index}-alias` });
  assert.equal((await client.get({ index: `${index}-alias`, id: "7" }))._source.n, 7000);
  const several = await client.msearch({ searches: [{ index }, { query: { match: { text: "7" } } }, { index: "t-none" }, {}] });
  assert.deepEqual(several.responses.map((answer) => answer.status), [200, 404]);
  await refused(() => client.create({ index, id: "7", document: {} }), 409, "version_conflict_engine_exception");
  await refused(() => client.search({ index: "t-none" }), 404, "index_not_found_exception");
  await refused(() => client.search({ index, query: { regexp: { text: "d.*" } } }), 400, "parsing_exception");
  assert.equal(await client.exists({ index, id: "none" }), false);
  await client.indices.refresh();
  await client.indices.delete({ index });
  await client.close();
}

async function opensearch() {
  const { Client } = load("@opensearch-project/opensearch");
  const client = new Client({ node: url, requestTimeout: 120_000 });
  const index = "t-opensearch-js";
  await client.indices.delete({ index }, { ignore: [404] });
  await client.indices.create({ index, body: {} });
  const done = await client.helpers.bulk({
    datasource: Array.from({ length: 30 }, (_, n) => ({ text: `document number ${n}`, n })),
    onDocument: (document) => ({ index: { _index: index, _id: String(document.n) } }),
    refreshOnCompletion: index,
  });
  assert.equal(done.successful, 30);
  const found = await client.search({ index, body: { query: { match: { text: "7" } } } });
  assert.equal(found.body.hits.hits[0]._id, "7");
  let seen = 0;
  for await (const page of client.helpers.scrollSearch({ index, body: { size: 7, query: { match_all: {} } } })) {
    seen += page.documents.length;
  }
  assert.equal(seen, 30);
  const pit = await client.createPit({ index, keep_alive: "1m" });
  const page = await client.search({ body: { pit: { id: pit.body.pit_id }, sort: ["n"], search_after: [27, 27], size: 5 } });
  assert.deepEqual(page.body.hits.hits.map((hit) => hit._id), ["28", "29"]);
  assert.equal((await client.deletePit({ body: { pit_id: [pit.body.pit_id] } })).body.pits[0].successful, true);
  await refused(() => client.search({ index: "t-none" }), 404, "index_not_found_exception");
  await client.indices.delete({ index });
  await client.close();
}

async function modelContextProtocol() {
  const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const put = await fetch(`${url}/t-mcp/_doc/1?refresh`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ title: "Emma", text: "handsome, clever, and rich" }) });
  assert.equal(put.status, 201);
  const client = new Client({ name: "a test", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  assert.equal(client.getServerVersion().name, "warpseek");
  await client.ping();
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), ["search", "get", "list_indexes"]);
  assert.ok(tools.every((tool) => tool.annotations.readOnlyHint));
  const found = await client.callTool({ name: "search", arguments: { index: "t-mcp", query: '"clever, and rich"' } });
  assert.equal(found.structuredContent.hits[0].document.title, "Emma");
  const read = await client.callTool({ name: "get", arguments: { index: "t-mcp", id: "1" } });
  assert.equal(JSON.parse(read.content[0].text).document.title, "Emma");
  const missing = await client.callTool({ name: "get", arguments: { index: "t-mcp", id: "2" } });
  assert.equal(missing.isError, true);
  const listed = await client.callTool({ name: "list_indexes", arguments: {} });
  assert.ok(listed.structuredContent.indexes.some((index) => index.name === "t-mcp"));
  await assert.rejects(() => client.callTool({ name: "delete", arguments: {} }), /unknown tool/);
  await client.close();
  assert.equal((await fetch(`${url}/t-mcp`, { method: "DELETE" })).status, 200);
}

(async () => {
  for (const name of ["elasticsearch-8", "elasticsearch-9"]) {
    await elasticsearch(name);
    console.log(`npm ${name}: ok`);
  }
  await opensearch();
  console.log("npm @opensearch-project/opensearch: ok");
  await modelContextProtocol();
  console.log("npm @modelcontextprotocol/sdk: ok");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
