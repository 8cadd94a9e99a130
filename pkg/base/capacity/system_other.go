//go:build !unix

package capacity

import "net"

// descriptors returns a fixed number, for systems without a limit.
func descriptors() int { return usualDescriptors }

// hasUnread always returns false, because this system cannot tell.
func hasUnread(net.Conn) bool { return false }
