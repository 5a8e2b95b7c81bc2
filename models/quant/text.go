package quant

// CheckText is the fixed text on which a quantised model is compared with its 32-bit original
// at conversion: prose, a list, numbers and code, so that damage of any kind shows.
const CheckText = `The ferry leaves the harbour at seven in the morning, and on clear days the crossing takes a little under two hours.
Most passengers stand at the rail until the lighthouse is out of sight; then they go below, where there is coffee and a
stove. Nobody remembers who painted the map on the cabin wall, but every captain since has added a rock or a wreck to it.

To bake a plain loaf you need:
1. 500 grams of flour
2. 350 grams of water, lukewarm
3. 10 grams of salt and 7 grams of dry yeast
Mix everything, wait an hour, fold the dough four times, and bake it at 230 degrees for 35 minutes.

Question: A train travels 180 kilometres in 2 hours. How fast is it? Answer: 180 / 2 = 90 kilometres per hour.

func sum(values []int) int {
	total := 0
	for _, v := range values {
		total += v
	}
	return total
}

The function above returns 0 for an empty slice, because the loop does not run. In the same way, an empty box weighs as
much as the box itself, and a letter without words still needs a stamp.
`
