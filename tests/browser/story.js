// What a page does with a pod of another origin. `tell` throws where the browser keeps from it what it must read.

export async function tell(story, pod, say) {
  await { works, allowed, refused, away }[story](new Pod(pod), say);
}

const NOBODY = '00000000-0000-7000-8000-000000000000';
const MODERN = '2026-07-28';

class Pod {
  constructor(url) {
    this.url = url;
  }

  // A request as JSON; `expected` is `STATUS WORD`, with the word of the refusal, or only the status.
  async ask(expected, method, path, { key, owner, headers = {}, body, raw } = {}) {
    headers = { ...headers };
    if (key) headers.Authorization = `Bearer ${key}`;
    if (owner) headers['X-Owner-Key'] = owner;
    if (body !== undefined) headers['Content-Type'] ??= 'application/json';
    const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const answer = await fetch(this.url + path, { method, headers, body: sent });
    const text = await answer.text();
    const said = text && answer.headers.get('content-type').includes('json') ? JSON.parse(text) : text;
    const word = said.code ?? said.error?.data?.code ?? said.error?.code ?? said.result?.structuredContent?.error?.code;
    const seen = word === undefined ? `${answer.status}` : `${answer.status} ${word}`;
    equal(seen, expected, `${method} ${path}: ${text}`);
    for (const name of must(answer.status)) {
      check(answer.headers.get(name), `${method} ${path} (${seen}): ${name} cannot be read`);
    }
    return said;
  }

  // A message to /mcp in an era.
  mcp(expected, era, method, params, { key, headers = {} } = {}) {
    const version = era === 'modern' ? MODERN : '2025-11-25';
    headers = { Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': version, ...headers };
    if (era === 'modern') {
      const meta = { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {} };
      params = { ...params, _meta: { ...meta, ...params._meta } };
      headers['Mcp-Method'] = method;
      if (params.name) headers['Mcp-Name'] = params.name;
    }
    return this.ask(expected, 'POST', '/mcp', { key, headers, body: { jsonrpc: '2.0', id: 1, method, params } });
  }
}

// Headers that a page must be able to read.
function must(status) {
  const headers = ['x-request-id'];
  if (status === 405) headers.push('allow');
  if (status === 401) headers.push('www-authenticate');
  if (status === 429 || status === 503) headers.push('retry-after');
  return headers;
}

// Every door, every verb, every kind of refusal.
async function works(pod, say) {
  const ada = await pod.ask('201', 'POST', '/api/v1/onboard', { body: { agent_name: 'ada' } });
  const bob = await pod.ask('201', 'POST', '/api/v1/onboard', { body: {} });
  await rest(pod, ada, bob);
  say('REST');
  for (const era of ['legacy', 'modern']) {
    await mcp(pod, ada, era);
    say(`MCP, ${era}`);
  }
  await refusals(pod, ada, bob);
  say('refusals with their bodies and headers');
  for (const path of ['/livez', '/readyz', '/llms.txt', '/openapi.yaml', '/']) {
    check(await pod.ask('200', 'GET', path), path);
  }
  await pod.ask('404 not_found', 'GET', '/.well-known/oauth-protected-resource/mcp');
  say('probes and documents');
  await noCookies(pod);
  say('no cookies');
}

async function rest(pod, ada, bob) {
  const key = ada.api_key;
  equal((await pod.ask('200', 'GET', '/api/v1/whoami', { key })).agent_id, ada.agent_id);
  equal((await pod.ask('200', 'GET', '/o/public/api/v1/whoami', { headers: { 'X-API-Key': key } })).org, 'public');
  const letter = { recipient_agent_id: ada.agent_id, body: 'hello', client_message_id: '1' };
  const send = (expected, body) => pod.ask(expected, 'POST', '/api/v1/mailbox/messages', { key: bob.api_key, body });
  const sent = await send('201', letter);
  await send('200', letter);
  await send('409 idempotency_conflict', { ...letter, body: 'hello again' });
  const page = await pod.ask('200', 'GET', '/api/v1/mailbox/messages?since=0&wait=5', { key });
  check(page.messages.some((message) => message.id === sent.message_id), 'no mail');
  await pod.ask('200', 'POST', '/api/v1/mailbox/claim', { key, body: {} });
  await pod.ask('200', 'POST', '/api/v1/mailbox/ack', { key, body: { message_ids: [sent.message_id] } });
  const owner = ada.owner_key;
  const block = `/api/v1/agents/${ada.agent_id}/blocks/${bob.agent_id}`;
  await pod.ask('200', 'PUT', block, { owner });
  await pod.ask('200', 'DELETE', block, { owner });
}

async function mcp(pod, ada, era) {
  const key = ada.api_key;
  const tools = (await pod.mcp('200', era, 'tools/list', {})).result.tools;
  check(tools.length > 5, 'no tools');
  if (era === 'legacy') await pod.mcp('200', era, 'initialize', { protocolVersion: '2025-11-25' });
  else await pod.mcp('200', era, 'server/discover', {});
  const call = (expected, name, args, more) => pod.mcp(expected, era, 'tools/call', { name, arguments: args }, more);
  equal((await call('200', 'who_am_i', {}, { key })).result.structuredContent.agent_id, ada.agent_id);
  equal((await call('200', 'who_am_i', { box_key: key })).result.structuredContent.agent_id, ada.agent_id);
  await call('200', 'who_am_i', { box_key: key }, { headers: { 'X-MCP-Toolsets': 'mailbox', 'Mcp-Session-Id': 'x' } });
  await call('200 unauthorized', 'who_am_i', {});
  await call('401 unauthorized', 'who_am_i', {}, { key: 'wpa_x' });
  await pod.mcp(era === 'modern' ? '404 -32601' : '200 -32601', era, 'gone', {});
  await pod.mcp('400 -32022', 'legacy', 'tools/list', {}, { headers: { 'MCP-Protocol-Version': '1999-01-01' } });
  const note = { jsonrpc: '2.0', method: 'notifications/initialized' };
  await pod.ask('202', 'POST', '/mcp', { body: note });
}

async function refusals(pod, ada, bob) {
  const key = ada.api_key;
  const messages = '/api/v1/mailbox/messages';
  await pod.ask('401 unauthorized', 'GET', '/api/v1/whoami');
  await pod.ask('403 forbidden', 'GET', '/api/v1/whoami', { key: ada.owner_key });
  await pod.ask('403 wrong_organization', 'GET', '/o/nowhere/api/v1/whoami', { key });
  await pod.ask('404 not_found', 'GET', `${messages}/${NOBODY}`, { key });
  await pod.ask('404 not_found', 'GET', '/gone');
  await pod.ask('405 method_not_allowed', 'DELETE', messages, { key });
  await pod.ask('413 payload_too_large', 'POST', messages, { key, body: { body: 'x'.repeat(3_000_000) } });
  await pod.ask('413 payload_too_large', 'POST', '/mcp', { key, body: { x: 'x'.repeat(3_000_000) } });
  await pod.ask('415 unsupported_media', 'POST', messages, { key, headers: { 'Content-Type': 'text/plain' }, body: {} });
  await pod.ask('422 unknown_field', 'POST', messages, { key, body: { to: 'bob' } });
  await pod.ask('400 malformed_request', 'POST', messages, { key, body: {}, raw: '{' });
  await tooManyHolds(pod, bob);
}

// The pod holds one read of an agent: the other of two is told when to come again.
async function tooManyHolds(pod, bob) {
  const cut = new AbortController();
  const read = `${pod.url}/api/v1/mailbox/messages?since=1&wait=25`;
  const headers = { Authorization: `Bearer ${bob.api_key}` };
  const answers = [1, 2].map(() => fetch(read, { headers, signal: cut.signal }));
  const answer = await Promise.race(answers);
  equal(answer.status, 429);
  const problem = await answer.json();
  equal(problem.code, 'too_many_holds');
  equal(answer.headers.get('retry-after'), `${problem.details.retry_after}`);
  cut.abort();
  await Promise.allSettled(answers);
}

// Keys are explicit here: no page may send cookies along.
async function noCookies(pod) {
  for (const path of ['/livez', '/api/v1/whoami', '/mcp']) {
    await rejects(fetch(pod.url + path, { credentials: 'include' }), `${path} with cookies`);
  }
}

// A page of a listed origin.
async function allowed(pod, say) {
  const ada = await pod.ask('201', 'POST', '/api/v1/onboard', { body: {} });
  await pod.ask('401 unauthorized', 'GET', '/api/v1/whoami');
  await mcp(pod, ada, 'modern');
  await noCookies(pod);
  say('a page of a listed origin');
}

// A page of any other origin is told nothing, and nothing is done for it.
async function refused(pod, say) {
  const headers = { 'Content-Type': 'application/json' };
  for (const [path, asked] of [
    ['/api/v1/whoami', {}],
    ['/livez', {}],
    ['/api/v1/onboard', { method: 'POST', headers, body: '{}' }],
    ['/mcp', { method: 'POST', headers, body: '{}' }],
    ['/api/v1/onboard', { method: 'POST', body: '{}' }],
  ]) {
    await rejects(fetch(pod.url + path, asked), path);
  }
  // What a page may send unasked is refused, too, not only kept from it.
  await fetch(`${pod.url}/api/v1/onboard`, { method: 'POST', mode: 'no-cors' });
  say('a page of another origin');
}

// A pod whose database goes away.
async function away(pod, say) {
  const ada = await pod.ask('201', 'POST', '/api/v1/onboard', { body: {} });
  await fetch('/stop-database', { method: 'POST' });
  const key = ada.api_key;
  // What was looked up a moment ago may still be known.
  await new Promise((done) => setTimeout(done, 1000));
  await pod.ask('503 temporarily_unavailable', 'GET', '/api/v1/whoami', { key });
  const call = { name: 'who_am_i', arguments: {} };
  await pod.mcp('503 temporarily_unavailable', 'modern', 'tools/call', call, { key });
  await pod.ask('200', 'GET', '/livez');
  say('a pod without its database');
}

function check(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}

function equal(seen, expected, context = '') {
  check(seen === expected, `${seen}, not ${expected} ${context}`);
}

async function rejects(promise, what) {
  const answer = await promise.catch((fault) => fault);
  check(answer instanceof TypeError, `${what} was answered ${answer.status}`);
}
