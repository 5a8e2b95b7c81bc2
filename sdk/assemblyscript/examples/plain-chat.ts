// plain-chat: a chat template for models without markup. Each message is a
// line such as "user: ...". Text of clients is written as data. The parameter
// "user" replaces the name "user" in these lines.

import { Content, Conversation, describe, Output, template, Template, Value } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/template";

class Plain extends Template {
  private bos: string = "";

  open(config: Value): string | null {
    this.bos = config.get("model").get("tokens").get("bos_token").text;
    return null;
  }

  validate(params: Value): string | null {
    for (let i = 0; i < params.length; i++) {
      if (params.names[i] != "user") return "unknown parameter: " + params.names[i];
      const n = params.items[i].isText ? String.UTF8.byteLength(params.items[i].text) : 0;
      if (n < 1 || n > 32) return "user: want 1 to 32 bytes";
    }
    return null;
  }

  render(r: Conversation, out: Output): string | null {
    if (r.tools.length) return "this template shows no tools";
    const user = r.params.get("user");
    const messages = r.messages;
    out.template(this.bos);
    for (let i = 0; i < messages.length; i++) {
      const role = messages[i].get("role").text;
      if (role == "user" && user.isText) out.data(user.text);
      else if (role == "system" || role == "user" || role == "assistant" || role == "tool") out.template(role);
      else return "message " + i.toString() + ': unknown role "' + role + '"';
      out.template(": ");
      const c = new Content(messages[i]);
      if (c.other.length) return "message " + i.toString() + ": only text is understood, not " + c.other;
      for (let j = 0; j < c.texts.length; j++) out.data(c.texts[j]);
      if (!(r.continueFinalMessage && i + 1 == messages.length)) out.template("\n");
    }
    if (r.addGenerationPrompt) out.template("assistant:");
    return null;
  }
}

describe(
  '{"name":"plain-chat","version":"1.0.0","kinds":["template"],' +
    '"doc":"A line for each message, for models without markup.",' +
    '"params":{"type":"object","additionalProperties":false,"properties":{' +
    '"user":{"type":"string","minLength":1,"maxLength":32}}}}',
);

template(new Plain());
