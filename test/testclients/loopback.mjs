// Preloaded into servers of others that would listen on every interface: a test's
// server is reached from this machine alone. Node looks even an address up before it listens at it;
// programs that ask at once which port they got need that answered at once.
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
