//go:build !unix

package capacity

import "net"

// descriptors returns a number for systems that have no limit.
func descriptors() int { return usualDescriptors }

// hasUnread does not know that here.
func hasUnread(net.Conn) bool { return false }
