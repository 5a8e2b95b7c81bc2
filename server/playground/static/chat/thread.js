// One conversation: its messages, and the reply that is on its way.
import {element, replace} from '../dom.js';
import {messageView} from './message.js';
import {newReply, receive} from './reply.js';
import {bodyOf} from './request.js';
import {showSnippets} from './snippets.js';

// near is how close to the end a reader must be to be kept there.
const near = 80;

// Thread shows side, which has settings and messages. hooks: changed() when something is to be kept, say(text) for
// screen readers, failed(error, side) for settings that cannot be sent, empty() for what to show without messages,
// plugins() for those that the server has.
export class Thread {
  constructor(app, side, hooks) {
    this.app = app;
    this.side = side;
    this.hooks = hooks;
    this.running = null;
    this.said = 0;
    for (const message of side.messages) message.busy = false; // it was cut by a reload
    this.log = element('div', {class: 'log', tabindex: 0, role: 'log', 'aria-live': 'off', 'aria-label': 'Messages'});
    this.head = element('div', {class: 'thread-head', hidden: true});
    this.node = element('section', {class: 'thread', 'aria-label': 'Conversation'}, this.head, this.log);
    this.draw();
  }

  get busy() { return this.running !== null; }

  // draw shows all messages anew.
  draw() {
    this.views = this.side.messages.map((message) => this.view(message));
    replace(this.log, this.views.length ? this.views.map((v) => v.node) : this.hooks.empty());
  }

  view(message) {
    const at = () => this.side.messages.indexOf(message);
    return messageView(message, {
      edit: () => {
        if (message.role === 'user') this.resend(at() + 1);
        else this.hooks.changed();
      },
      retry: () => this.resend(at()),
      remove: () => {
        if (this.busy) return;
        const ids = new Set((message.calls ?? []).map((call) => call.id));
        this.side.messages = this.side.messages.filter((m) => m !== message && !(m.role === 'tool' && ids.has(m.call)));
        this.draw();
        this.log.focus();
        this.hooks.changed();
      },
      request: (body) => showSnippets(body, this.app.address('/')),
      answer: (texts) => this.answer(message, texts),
    });
  }

  add(message) {
    if (!this.side.messages.length) this.log.replaceChildren();
    this.side.messages.push(message);
    const view = this.view(message);
    this.views.push(view);
    this.log.append(view.node);
    return view;
  }

  // check returns the body that would be sent now, or throws what is wrong with the settings.
  check(messages = this.side.messages) {
    return bodyOf(this.side.settings, messages, this.hooks.plugins());
  }

  // send adds what the user wrote, and asks for a reply.
  send(text, images) {
    this.add({role: 'user', text, images});
    return this.generate();
  }

  // resend drops messages from a place on, and asks again.
  resend(from) {
    if (this.busy) return null;
    this.side.messages.length = from;
    this.draw();
    return this.generate();
  }

  // answer sends what the tools returned that a reply called.
  answer(message, texts) {
    if (this.busy || message.answered) return null;
    message.answered = true;
    this.views[this.side.messages.indexOf(message)].update();
    message.calls.forEach((call, i) => this.add({role: 'tool', call: call.id, name: call.name, text: texts[i] ?? ''}));
    return this.generate();
  }

  // generate asks for a reply to the messages. It never throws: what goes wrong is shown in the reply.
  async generate() {
    const {settings} = this.side;
    let body;
    try {
      body = this.check();
    } catch (err) {
      this.hooks.failed(err, this.side);
      return;
    }
    const asked = this.side.messages.at(-1), askedView = this.views.at(-1);
    const reply = {...newReply(), body: {...body, stream: true}, grammar: {...settings.grammar}};
    const view = this.add(reply);
    this.running = new AbortController();
    this.hooks.changed();
    this.said = 0;
    this.scroll();
    let frame = 0;
    const changed = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        const follow = this.atEnd();
        view.update();
        this.read(reply, false);
        if (follow) this.scroll();
      });
    };
    try {
      await receive(this.app, body, reply, this.running.signal, changed);
    } catch (err) {
      if (err.name === 'AbortError') reply.aborted = true;
      else reply.error = err.message;
    }
    cancelAnimationFrame(frame);
    const follow = this.atEnd();
    reply.busy = false;
    this.running = null;
    view.update();
    const unanswered = Boolean(reply.error || reply.aborted) && !reply.text && !reply.calls.length;
    if (asked?.role === 'user' && unanswered !== Boolean(asked.unanswered)) {
      asked.unanswered = unanswered;
      if (!askedView.node.querySelector('textarea')) askedView.update(); // else it is being edited
    }
    if (follow) this.scroll();
    this.read(reply, true);
    this.hooks.changed();
  }

  stop() { this.running?.abort(); }

  clear() {
    this.stop();
    this.side.messages = [];
    this.draw();
    this.hooks.changed();
  }

  // read says the sentences of a reply that are whole and were not said yet.
  read(reply, whole) {
    const text = reply.text.slice(this.said);
    const end = whole ? text.length : Math.max(text.lastIndexOf('. '), text.lastIndexOf('\n'), text.lastIndexOf('? '),
      text.lastIndexOf('! ')) + 1;
    if (end > 0) this.hooks.say(text.slice(0, end));
    this.said += Math.max(0, end);
    if (whole && reply.calls.length) this.hooks.say(`Calls ${reply.calls.map((c) => c.name).join(', ')}`);
    if (whole && reply.aborted) this.hooks.say('Stopped');
  }

  atEnd() { return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < near; }

  scroll() { this.log.scrollTop = this.log.scrollHeight; }
}
