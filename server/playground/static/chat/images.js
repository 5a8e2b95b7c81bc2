// Images that go with the next message: chosen, pasted or dropped.
import {element, replace} from '../dom.js';
import {bytes} from '../admin/format.js';

// kinds are those that models are given, largest bounds the bytes of one; server.payload_limit bounds what the server
// takes.
const kinds = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const largest = 10 << 20, most = 16;

// imageChooser returns {node, accept, add, read, list, clear}: node shows the images, add(files) takes those that are
// images and returns what is wrong with the first other one, '' for nothing; list() are the addresses of their data.
// changed is called when there are others, lost(text) for one that cannot be read.
export function imageChooser(changed, lost) {
  const node = element('div', {class: 'thumbs'});
  let places = []; // {src, picture, node}: src is undefined until it is read

  function newPlace() {
    const place = {src: undefined, picture: element('span', {class: 'reading'}, '…')};
    place.button = element('button', {type: 'button', onclick: () => remove(place)}, '✕');
    place.node = element('div', {class: 'thumb'}, place.picture, place.button);
    return place;
  }

  // fill shows an image that was read, unless it was removed meanwhile.
  function fill(place, src) {
    place.src = src;
    if (!places.includes(place)) return;
    const picture = element('img', {src});
    place.picture.replaceWith(picture);
    place.picture = picture;
    number();
    changed();
  }

  function number() {
    places.forEach((place, i) => {
      if (place.src) place.picture.alt = `Image ${i + 1}`;
      place.button.setAttribute('aria-label', `Remove image ${i + 1}`);
    });
  }

  function draw() {
    replace(node, places.map((place) => place.node));
    number();
    changed();
  }

  function remove(place) {
    places = places.filter((other) => other !== place);
    draw();
  }

  function wrong(file) {
    if (!kinds.includes(file.type)) {
      return `${file.name} is ${file.type || 'no image'}: models are given PNG, JPEG, GIF and WebP`;
    }
    if (file.size > largest) {
      return `${file.name} has ${file.size.toLocaleString('en')} bytes, more than ${bytes(largest)}`;
    }
    return places.length >= most ? `A message has at most ${most} images` : '';
  }

  return {
    node,
    accept: kinds.join(),
    add(files) {
      let first = '';
      for (const file of files) {
        const why = wrong(file);
        first ||= why;
        if (why) continue;
        const place = newPlace();
        places.push(place);
        place.read = read(file).then((src) => fill(place, src), (err) => {
          remove(place);
          lost(`${file.name} cannot be read: ${err.message}`);
        });
      }
      draw();
      return first;
    },
    // read resolves when all are read.
    read: () => Promise.all(places.map((place) => place.read)),
    list: () => places.map((place) => place.src).filter((src) => src),
    clear() {
      places = [];
      draw();
    },
  };
}

function read(file) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
}
