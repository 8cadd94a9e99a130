//go:build !unix

package capacity

import "net"

// descriptors returns a fixed number, for systems without a limit.
func descriptors() int { return usualDescriptors }

// hasUnread always returns false: it cannot find out here.
func hasUnread(net.Conn) bool { return false }
