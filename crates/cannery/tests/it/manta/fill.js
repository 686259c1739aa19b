// Puts objects into directories, many at once: URL, token, directories, objects in each.
'use strict';
const http = require('http');

const [url, token, directories, objects] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });

function put(path, headers, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(url + path, {
      agent,
      method: 'PUT',
      headers: Object.assign({ authorization: `Bearer ${token}` }, headers),
    }, (response) => {
      response.resume();
      response.on('end', () => (response.statusCode === 204 ? resolve() : reject(new Error(`${path}: ${response.statusCode}`))));
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function main() {
  const directory = { 'content-type': 'application/json; type=directory' };
  await put('many', directory, '');
  for (let d = 0; d < Number(directories); d++) {
    await put(`many/d${d}`, directory, '');
    const all = [];
    for (let o = 0; o < Number(objects); o++) {
      all.push(put(`many/d${d}/o${o}`, {}, `${d} ${o}`));
    }
    await Promise.all(all);
  }
}

main().then(() => process.exit(0), (error) => { console.error(error.message); process.exit(1); });
