"""
Kinds of words from their order
===============================

Nobody tells the model what a noun is. It sees sentences as rows of a data frame, a word
in each, and finds states whose words can stand in the same place: a hidden Markov model
with categorical states. The same word may have two kinds, and the neighbours decide.
"""

# %%
# Sentences
# ---------
# A small grammar writes them. "light", "watch" and "fast" have two kinds each; some
# words are missing.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sktem import HiddenMarkovModel

kinds = ["article", "adjective", "noun", "verb", "adverb"]
words = {
    "article": ["the", "a", "this", "every"],
    "adjective": ["old", "small", "light", "red", "fast"],
    "noun": ["dog", "house", "light", "watch", "child", "bird"],
    "verb": ["sees", "finds", "watch", "likes", "needs"],
    "adverb": ["often", "never", "fast", "here"],
}
follows = {
    "article": {"adjective": 0.4, "noun": 0.6},
    "adjective": {"adjective": 0.1, "noun": 0.9},
    "noun": {"verb": 0.8, "adverb": 0.2},
    "verb": {"article": 0.8, "adverb": 0.2},
    "adverb": {"verb": 0.6, "article": 0.4},
}
rng = np.random.default_rng(1)
rows = []
for sentence in range(300):
    kind = "article"
    for _ in range(rng.integers(5, 12)):
        rows.append((sentence, rng.choice(words[kind]), kind))
        kind = rng.choice(list(follows[kind]), p=list(follows[kind].values()))
text = pd.DataFrame(rows, columns=["sentence", "word", "kind"])
frame = text[["sentence", "word"]].copy()
frame.loc[rng.random(len(frame)) < 0.03, "word"] = None
print(frame.head(6))

# %%
# States
# ------
# Columns of strings are categorical. ``groups`` names the column that tells sentences
# apart.

hmm = HiddenMarkovModel(5, emission="categorical", n_init=3, random_state=0)
hmm.fit(frame, groups="sentence")
states = hmm.predict(frame, groups="sentence")
counts = pd.crosstab(text["kind"], states).loc[kinds]
print(counts)

# %%
# Each state by its most frequent kind. Ambiguous words are told apart by what stands
# next to them.

name_of = {state: counts[state].idxmax() for state in counts}
found = pd.Series(states).map(name_of)
right_kind = found == text["kind"]
twice = text["word"].isin(["light", "watch", "fast"])
print(f"right: {right_kind.mean():.1%} of all words")
print(f"right: {right_kind[twice].mean():.1%} of the ambiguous ones")

vocabulary = next(iter(hmm.categories_.values()))
shares = hmm.emission_params_.probabilities[:, 0, : len(vocabulary)]
order = sorted(range(5), key=lambda state: kinds.index(name_of.get(state, "adverb")))
columns = np.lexsort((vocabulary, shares[order].argmax(axis=0)))
fig, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.2), width_ratios=[3, 1.3], layout="constrained"
)
left.imshow(shares[order][:, columns], cmap="Blues", aspect="auto")
left.set_xticks(range(len(vocabulary)), vocabulary[columns], rotation=70)
left.set_title("words of each state")
right.imshow(hmm.transitions_[np.ix_(order, order)], cmap="Oranges", vmin=0, vmax=1)
right.set_title("what follows")
labels = [name_of.get(state, "-") for state in order]
for ax in (left, right):
    ax.set_yticks(range(5), labels)
right.set_xticks(range(5), labels, rotation=70)

# %%
# A sentence with a gap
# ---------------------
# The missing word is drawn as the states around it want it.

gap = pd.DataFrame({"word": ["the", "small", None, "sees", "a", "light", "watch"]})
print([name_of[state] for state in hmm.predict(gap)])
print(" ".join(hmm.impute(gap, method="draw")["word"]))
new, _ = hmm.sample(8)
print("made up:", " ".join(np.asarray(new).ravel()))
plt.show()
