// A small chart of the last readings: a line with an area below it, drawn as SVG.
const space = 'http://www.w3.org/2000/svg';
const width = 240, height = 56;

function svg(tag, attributes) {
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// chart makes one for `points` readings. show(values, limit) draws them, the newest at the right; null is a gap. The
// scale goes from 0 to the largest value, or to limit where there is one.
export function chart(points) {
  const root = svg('svg', {class: 'chart', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none',
    'aria-hidden': 'true', focusable: 'false'});
  const area = svg('path', {class: 'area'}), line = svg('path', {class: 'line', 'vector-effect': 'non-scaling-stroke'});
  root.append(svg('path', {class: 'base', d: `M0 ${height - 1}H${width}`, 'vector-effect': 'non-scaling-stroke'}),
    area, line);

  function show(values, limit = 0) {
    const top = Math.max(limit, ...values.filter((v) => v !== null), 1e-9);
    const x = (i) => (i + points - values.length) * width / (points - 1);
    const y = (v) => height - 2 - v / top * (height - 6);
    let lines = '', areas = '', begun = -1;
    values.forEach((v, i) => {
      if (v === null) {
        begun = -1;
        return;
      }
      const at = `${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      if (begun < 0) {
        begun = i;
        lines += `M${at}`;
        areas += `M${x(i).toFixed(1)} ${height}`;
      } else lines += `L${at}`;
      areas += `L${at}`;
      if (i === values.length - 1 || values[i + 1] === null) areas += `L${x(i).toFixed(1)} ${height}Z`;
    });
    line.setAttribute('d', lines || 'M0 0');
    area.setAttribute('d', areas || 'M0 0');
  }
  return {root, show};
}
