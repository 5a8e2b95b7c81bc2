// Files that are dragged from another window.
const hasFiles = (event) => Boolean(event.dataTransfer?.types.includes('Files'));

// dropZone gives take the files that are dropped on node, which has the class `over` while they are above it.
export function dropZone(node, take) {
  for (const kind of ['dragenter', 'dragover']) {
    node.addEventListener(kind, (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      event.stopPropagation();
      node.classList.add('over');
    });
  }
  node.addEventListener('dragleave', (event) => {
    if (!node.contains(event.relatedTarget)) node.classList.remove('over');
  });
  node.addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    node.classList.remove('over');
    take([...event.dataTransfer.files]);
  });
}

// refuseFiles keeps the browser from showing a file in place of the page where it is dropped beside all zones.
export function refuseFiles() {
  for (const kind of ['dragenter', 'dragover', 'drop']) {
    addEventListener(kind, (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = 'none';
    });
  }
}
