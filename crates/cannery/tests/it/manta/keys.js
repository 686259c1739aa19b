// Makes a pair of SSH keys of each kind in the folder that the first argument names, and prints their MD5 fingerprints.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const sshpk = require('sshpk');

const folder = process.argv[2];
const rsa = crypto.generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
});
const keys = {
  rsa: sshpk.parsePrivateKey(rsa.privateKey, 'pem'),
  ecdsa: sshpk.generatePrivateKey('ecdsa', { curve: 'nistp256' }),
  ed25519: sshpk.generatePrivateKey('ed25519'),
};
for (const [kind, key] of Object.entries(keys)) {
  const file = path.join(folder, `id_${kind}`);
  const text = kind === 'rsa' ? rsa.privateKey : key.toString('openssh');
  fs.writeFileSync(file, text, { mode: 0o600 });
  fs.writeFileSync(`${file}.pub`, `${key.toPublic().toString('ssh')} ${kind} of a test\n`);
  console.log(`${kind} ${key.fingerprint('md5').toString('hex')}`);
}
