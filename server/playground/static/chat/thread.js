// One conversation: its messages, and the reply that is on its way.
import {element, replace} from '../dom.js';
import {messageView} from './message.js';
import {newReply, receive} from './reply.js';
import {bodyOf, explainedAtMost} from './request.js';
import {showSnippets} from './snippets.js';

// near is how close to the end a reader must be to be kept there.
const near = 80;

// mostExplained is how many replies keep what happened at their tokens.
const mostExplained = 20;

// pause is how long a reply is left as it is after it was drawn, in times of what drawing took: long ones take longer,
// and the page must stay usable.
const pause = 4;

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
      edit: (text) => this.edit(message, text),
      retry: () => this.resend(this.side.messages.slice(0, at())),
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

  // check returns the body that messages would be sent with, or throws what is wrong with the settings.
  check(messages) {
    return bodyOf(this.side.settings, messages, this.hooks.plugins());
  }

  // ready is check that tells of what is wrong, and returns null then, or while a reply comes.
  ready(messages) {
    if (this.busy) return null;
    try {
      return this.check(messages);
    } catch (err) {
      this.hooks.failed(err, this.side);
      return null;
    }
  }

  // send adds what the user wrote, and asks for a reply by body, which ready returned for it.
  send(message, body) {
    this.add(message);
    this.generate(body);
  }

  // edit gives a message another text. One of the user is sent again, without what followed it. It returns whether the
  // text was taken.
  edit(message, text) {
    const {messages} = this.side;
    if (message.role === 'user') {
      return this.resend([...messages.slice(0, messages.indexOf(message)), {...message, text}]);
    }
    if (this.busy) return false;
    message.text = text;
    message.tokens = []; // they are those of another text
    this.hooks.changed();
    return true;
  }

  // resend asks for a reply to other messages, and returns whether it could.
  resend(messages) {
    const body = this.ready(messages);
    if (!body) return false;
    this.side.messages = messages;
    this.draw();
    this.generate(body);
    return true;
  }

  // answer sends what the tools returned that a reply called.
  answer(message, texts) {
    const results = message.calls.map((call, i) =>
      ({role: 'tool', call: call.id, name: call.name, text: texts[i] ?? ''}));
    const body = message.answered ? null : this.ready([...this.side.messages, ...results]);
    if (!body) return;
    message.answered = true;
    this.views[this.side.messages.indexOf(message)].update();
    for (const result of results) this.add(result);
    this.generate(body);
  }

  // generate asks for a reply by body. It never throws: what goes wrong is shown in the reply.
  async generate(body) {
    const asked = this.side.messages.at(-1), askedView = this.views.at(-1);
    const reply = {...newReply(), body: {...body, stream: true}, grammar: {...this.side.settings.grammar},
      explained: explainedAtMost(body)};
    const view = this.add(reply);
    this.running = new AbortController();
    this.node.classList.add('busy');
    this.hooks.changed();
    this.said = 0;
    this.scroll();
    let frame = 0, next = 0;
    const draw = (now) => {
      frame = now < next ? requestAnimationFrame(draw) : 0;
      if (frame) return;
      const began = performance.now(), follow = this.atEnd();
      view.update();
      this.read(reply, false);
      if (follow) this.scroll();
      next = performance.now() + pause * (performance.now() - began);
    };
    try {
      await receive(this.app, body, reply, this.running.signal, () => { frame ||= requestAnimationFrame(draw); });
    } catch (err) {
      if (err.name === 'AbortError') reply.aborted = true;
      else reply.error = err.message;
    }
    cancelAnimationFrame(frame);
    const follow = this.atEnd();
    reply.busy = false;
    this.running = null;
    this.node.classList.remove('busy');
    view.update();
    const unanswered = Boolean(reply.error || reply.aborted) && !reply.text && !reply.calls.length;
    if (asked?.role === 'user' && unanswered !== Boolean(asked.unanswered)) {
      asked.unanswered = unanswered;
      if (!askedView.node.querySelector('textarea')) askedView.update(); // else it is being edited
    }
    if (follow) this.scroll();
    this.read(reply, true);
    this.forget();
    this.hooks.changed();
  }

  // forget drops the explanations of old replies, which are much larger than the replies.
  forget() {
    const explained = this.side.messages.filter((message) => message.tokens?.length > 0);
    for (const message of explained.slice(0, -mostExplained)) {
      message.tokens = [];
      this.views[this.side.messages.indexOf(message)].update();
    }
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
    if (whole && reply.verdict) this.hooks.say(reply.verdict);
    if (whole && reply.aborted) this.hooks.say('Stopped');
  }

  atEnd() { return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < near; }

  scroll() { this.log.scrollTop = this.log.scrollHeight; }
}
