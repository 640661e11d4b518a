// The path of the tessera extension: new (require('better-sqlite3'))(':memory:').loadExtension(getLoadablePath()).
'use strict';
const fs = require('node:fs');
const path = require('node:path');

function getLoadablePath() {
  for (const name of ['tessera.so', 'tessera.dylib']) {
    const file = path.join(__dirname, name);
    if (fs.existsSync(file)) return file;
  }
  throw new Error(`the tessera extension is not in ${__dirname}: install sqlite-tessera again`);
}

module.exports = { getLoadablePath };
