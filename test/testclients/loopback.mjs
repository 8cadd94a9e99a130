// Node loads this file first in third-party servers that would listen on every interface, so that
// only this machine reaches a test's server. Before Node listens at an address, it looks the address
// up. Some programs ask for their port immediately, so the lookup must answer immediately.
import dns from 'node:dns';
import net from 'node:net';

const lookup = dns.lookup;
dns.lookup = function (name, ...rest) {
  return name === '127.0.0.1' ? rest.at(-1)(null, name, 4) : lookup.call(this, name, ...rest);
};

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  if (typeof port === 'number' || typeof port === 'string') {
    return listen.call(this, { port: Number(port), host: '127.0.0.1' }, ...rest.filter((a) => typeof a === 'function'));
  }
  return listen.call(this, port, ...rest);
};
