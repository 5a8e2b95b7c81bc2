// Server-sent events of a response, as they come.

// events yields the data of each event, but for OpenAI's last one, which says that there are no more.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '', data = [];
  try {
    for (;;) {
      const {value, done} = await reader.read().catch((err) => {
        if (err.name === 'AbortError') throw err;
        throw new Error(`The reply broke off (${err.message}).`);
      });
      if (done) return;
      text += value;
      const lines = text.split(/\r?\n/);
      text = lines.pop();
      for (const line of lines) {
        if (line === '') {
          if (data.length) {
            const event = data.join('\n');
            data = [];
            if (event !== '[DONE]') yield event;
          }
        } else if (line.startsWith('data:')) {
          data.push(line.slice(5).replace(/^ /, ''));
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // the server stops generating for who left
  }
}
