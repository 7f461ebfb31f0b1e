// SPDX-License-Identifier: Apache-2.0
// node report.js PORT: answers every request with a report of four hundred orders in JSON, gzipped.
'use strict';
const http = require('http');
const zlib = require('zlib');

function report() {
  const orders = [];
  for (let i = 0; i < 400; i++) {
    const items = [];
    for (let k = 0; k <= i % 5; k++) items.push({ article: `A${(i * 7919 + k) % 1000}`, count: 1 + (i + k) % 9 });
    orders.push({ number: i, customer: `customer ${(i * 104729) % 211}`, items });
  }
  return JSON.stringify({ orders });
}

process.on('SIGTERM', () => process.exit(0));
http.createServer((request, response) => {
  zlib.gzip(Buffer.from(report()), (error, packed) => {
    response.writeHead(error ? 500 : 200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' });
    response.end(error ? String(error) : packed);
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
