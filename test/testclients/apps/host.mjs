// A host of MCP Apps: it shows the pages of a gateway's tools in frames, and passes the calls of the
// pages on. Tests run it in Chromium. AppBridge is the bridge of the extension's own package.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AppBridge, PostMessageTransport, RESOURCE_MIME_TYPE, getToolUiResourceUri, isToolVisibilityAppOnly } from '@modelcontextprotocol/ext-apps/app-bridge';

const info = { name: 'portcullis-host', version: '1.0.0' };
const extensions = { 'io.modelcontextprotocol/ui': { mimeTypes: [RESOURCE_MIME_TYPE] } };
let client;
let tools;

// connect opens a connection to a gateway, in one of the modes of the client.
async function connect(url, mode) {
  client = new Client(info, { capabilities: { extensions }, versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  tools = (await client.listTools()).tools;
  document.querySelector('main').replaceChildren();
  return client.getNegotiatedProtocolVersion();
}

// offered returns the names of the tools that this host gives to its model.
const offered = () => tools.filter((tool) => !isToolVisibilityAppOnly(tool)).map((tool) => tool.name).sort();

// read returns the page at a URI, which has one part.
async function read(uri) {
  const { contents } = await client.readResource({ uri });
  if (contents.length !== 1 || contents[0].mimeType !== RESOURCE_MIME_TYPE) {
    throw new Error(`${uri} is not a page: ${contents.length} parts, ${contents[0]?.mimeType}`);
  }
  return contents[0].text ?? atob(contents[0].blob);
}

// open calls a tool as a model does, and shows its page in a new frame with this id.
async function open(name, id) {
  const tool = tools.find((each) => each.name === name);
  if (!tool) throw new Error(`${name} is not listed`);
  const result = client.callTool({ name, arguments: {} });
  const html = await read(getToolUiResourceUri(tool));
  const frame = document.createElement('iframe');
  frame.id = id;
  // A real host shows pages at another origin. Here the test has to reach the buttons of the page.
  frame.sandbox = 'allow-scripts allow-same-origin';
  document.querySelector('main').append(frame);
  const bridge = new AppBridge(client, info, { openLinks: {}, serverTools: {}, serverResources: {}, logging: {} });
  const ready = new Promise((resolve) => { bridge.oninitialized = resolve; });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = html;
  await ready;
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(await result);
}

// call calls a tool as a page does, and returns the texts of the result or the error.
async function call(name) {
  try {
    const result = await client.callTool({ name, arguments: {} });
    return result.content.map((part) => part.text).join('\n');
  } catch (error) {
    return error.message;
  }
}

// within returns the first element of a selector in a frame.
const within = (id, selector) => document.getElementById(id).contentDocument.querySelector(selector);

window.host = { connect, offered, open, read, call, within };
