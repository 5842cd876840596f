// A page with widgets and a model of our own for each: its links are websockets to the server that the page is from.
import widget from "./widget.js";

const BUFFER_OFFSET = 3; // as in JupyterLab, where buffers are parts of a message

window.said = [];
window.widgets = [];

function modelOf(traits) {
  const listeners = new Map();
  const sockets = new Map();
  let acknowledged = 0;
  const say = (event, ...given) => [...(listeners.get(event) ?? [])].forEach((run) => run(...given));
  const ended = (link, text) => sockets.delete(link) && say("msg:custom", { kind: "closed", link, text }, []);
  return {
    get: (name) => traits[name],
    set: (name, value) => {
      traits[name] = value;
      say(`change:${name}`);
    },
    on: (event, run) => listeners.set(event, (listeners.get(event) ?? new Set()).add(run)),
    off: (event, run) => listeners.get(event)?.delete(run),
    listeners: () => [...listeners.values()].reduce((sum, those) => sum + those.size, 0),
    acknowledged: () => acknowledged,
    cut: () => [...sockets].forEach(([link, socket]) => {
      socket.close();
      ended(link, "The kernel was tired.");
    }),
    send: ({ kind, link, text }) => {
      said.push({ kind, link });
      if (kind === "text" && JSON.parse(text).type === "ack") acknowledged += 1;
      const socketOf = sockets.get(link);
      if (kind === "text" && socketOf?.readyState === WebSocket.OPEN) socketOf.send(text);
      if (kind === "close") sockets.get(link)?.close();
      if (kind !== "open") return;
      const socket = new WebSocket(`ws://${location.host}/live`, "barrage-page.1");
      sockets.set(link, socket);
      socket.binaryType = "arraybuffer";
      socket.onopen = () => say("msg:custom", { kind: "opened", link }, []);
      socket.onclose = () => ended(link, "The server has ended the page.");
      socket.onmessage = ({ data }) => {
        if (typeof data === "string") say("msg:custom", { kind: "text", link, text: data }, []);
        else {
          const whole = new Uint8Array(data.byteLength + BUFFER_OFFSET);
          whole.set(new Uint8Array(data), BUFFER_OFFSET);
          say("msg:custom", { kind: "binary", link }, [new DataView(whole.buffer, BUFFER_OFFSET)]);
        }
      };
    },
  };
}

/** Shows a widget in the element with this id. */
window.show = (id, traits) => {
  const model = modelOf({ height: 300, theme: "auto", plot: null, ...traits });
  const end = widget.render({ model, el: document.getElementById(id) });
  widgets.push({ model, end });
};
