// Numbers as people read them.
const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(n) {
  if (!Number.isFinite(n) || n <= 0) return n === 0 ? '0 B' : '–';
  const i = Math.min(Math.floor(Math.log2(n) / 10), units.length - 1);
  const value = n / 1024 ** i;
  return `${i === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[i]}`;
}

// count is a whole number, short from ten thousand on.
export function count(n) {
  if (!Number.isFinite(n)) return '–';
  if (Math.abs(n) < 10_000) return Math.round(n).toLocaleString('en');
  return new Intl.NumberFormat('en', {notation: 'compact', maximumFractionDigits: 1}).format(n);
}

// rate is a number with as many digits as matter.
export function rate(n) {
  if (n === null || n === undefined || !Number.isFinite(n)) return '–';
  if (n === 0) return '0';
  return n >= 100 ? count(n) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
}

export function seconds(n) {
  if (n === null || n === undefined || !Number.isFinite(n)) return '–';
  if (n === 0) return '0 s';
  if (n < 1e-3) return `${Math.round(n * 1e6)} µs`;
  if (n < 1) return `${(n * 1e3).toFixed(n < 0.1 ? 1 : 0)} ms`;
  if (n < 120) return `${n.toFixed(1)} s`;
  const minutes = Math.floor(n / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (days) return `${days} d ${hours % 24} h`;
  return hours ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}

export function share(n) {
  if (n === null || n === undefined || !Number.isFinite(n)) return '–';
  return `${(n * 100).toFixed(n < 0.1 && n > 0 ? 1 : 0)} %`;
}
