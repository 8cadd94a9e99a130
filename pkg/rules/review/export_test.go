package review

// Size counts the bytes in the cache again. It returns -1 if the cache's own counts are wrong.
func (c *Changes) Size() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range c.by {
		n += change.bytes()
	}
	if n != c.size || len(c.order) != len(c.by) {
		return -1
	}
	return n
}
