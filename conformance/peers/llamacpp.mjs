// Measures llama.cpp, through node-llama-cpp without a server: llamacpp.mjs FILE THREADS STREAMS,...
// Prints a line of JSON for each number of streams: prompt tokens/s for one, and tokens/s, the best of three.
import {getLlama} from "node-llama-cpp";

const [file, threads, streams] = process.argv.slice(2);
const llama = await getLlama({gpu: false, logLevel: "error", build: "never", maxThreads: Number(threads)});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const prompt = n => Array.from({length: n}, () => 2 + Math.floor(Math.random() * 200));
const newTokens = 32;

async function best(run) {
  let least = Infinity;
  for (let i = 0; i < 3; i++) {
    const begin = performance.now();
    await run();
    least = Math.min(least, performance.now() - begin);
  }
  return least / 1000;
}

async function generate(sequence) {
  let count = 0;
  for await (const _ of sequence.evaluate([7], {temperature: 0, yieldEogToken: true}))
    if (++count >= newTokens) return;
}

for (const count of streams.split(",").map(Number)) {
  const context = await model.createContext({
    contextSize: 1024, batchSize: 512, sequences: count, threads: Number(threads),
  });
  const sequences = Array.from({length: count}, () => context.getSequence());
  const result = {streams: count};
  if (count === 1)
    result.prefill = 512 / await best(async () => {
      await sequences[0].clearHistory();
      await sequences[0].evaluateWithoutGeneratingNewTokens(prompt(512));
    });
  for (const s of sequences) await s.clearHistory();
  await Promise.all(sequences.map(s => s.evaluateWithoutGeneratingNewTokens(prompt(128))));
  result.decode = count * newTokens / await best(() => Promise.all(sequences.map(generate)));
  console.log(JSON.stringify(result));
  await context.dispose();
}
process.exit(0);
