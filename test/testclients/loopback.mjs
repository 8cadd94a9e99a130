// Preloaded into servers of others that would listen on every interface: a test's
// server is reached from this machine alone.
import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  if (typeof port === 'number' || typeof port === 'string') {
    return listen.call(this, { port: Number(port), host: '127.0.0.1' }, ...rest.filter((a) => typeof a === 'function'));
  }
  return listen.call(this, port, ...rest);
};
