// A JavaScript MCP client on a wire of lines: `node_client.cjs client2|sdk1 URL MODE`, key in CLIENT_KEY or none.
// The lines are those of python_client.py. Its packages are outside the checkout: NODE_PATH.
const { createInterface } = require('node:readline');

const me = { name: 'waypost-tests', version: '0.0.0' };

function client2(mode) {
  const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
  const chosen = mode === 'pin' ? { pin: '2026-07-28' } : mode;
  const client = new Client(me, { versionNegotiation: { mode: chosen } });
  const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
  return { client, call, Transport: StreamableHTTPClientTransport };
}

function sdk1() {
  const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const client = new Client(me);
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  return { client, call, Transport: StreamableHTTPClientTransport };
}

async function main(kind, url, mode) {
  const key = process.env.CLIENT_KEY;
  const { client, call, Transport } = { client2, sdk1 }[kind](mode);
  const requestInit = { headers: key ? { Authorization: `Bearer ${key}` } : {} };
  await client.connect(new Transport(new URL(url), { requestInit }));
  let giveUp;
  for await (const line of createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    if (asked.cancel) {
      giveUp.abort();
    } else {
      giveUp = new AbortController();
      answer(asked, client, call, giveUp.signal).then((said) => console.log(JSON.stringify(said)));
    }
  }
  await client.close();
}

async function answer(asked, client, call, signal) {
  try {
    if (asked.list) {
      return { tools: (await client.listTools()).tools.map((tool) => tool.name) };
    }
    // Progress is asked for in every call: such a call takes another way through the door.
    const result = await call(asked.call, asked.arguments, { signal, onprogress: () => {} });
    return { failed: result.isError === true, structured: result.structuredContent, text: result.content[0].text };
  } catch (raised) {
    return signal.aborted ? { cancelled: true } : { raised: `${raised.name}: ${raised.message}` };
  }
}

main(...process.argv.slice(2)).catch((raised) => {
  console.error(raised);
  process.exit(1);
});
