package search

// isStopWord reports whether w is a stop word: a word that only serves the grammar of a query.
// Words such as find, list and search are not stop words, because they name what tools do.
//
// The program in embedding/maketable reads the list from this file, so keep the form of the list.
func isStopWord(w string) bool {
	switch w {
	case "a", "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at",
		"be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "could", "did",
		"do", "does", "doing", "down", "during", "each", "etc", "few", "for", "from", "further", "get", "got",
		"had", "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into",
		"is", "it", "its", "itself", "just", "let", "make", "me", "more", "most", "my", "need", "no", "nor", "not",
		"now", "of", "off", "on", "once", "only", "or", "other", "our", "out", "over", "own", "please", "same",
		"she", "should", "show", "so", "some", "such", "tell", "than", "that", "the", "their", "them", "then",
		"there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up", "us", "use",
		"used", "using", "very", "via", "want", "was", "we", "were", "what", "when", "where", "which", "while",
		"who", "whom", "why", "will", "with", "would", "you", "your":
		return true
	}
	return false
}
