// Checks passages of English with Harper and prints its findings as JSON.
//
// Usage: node grammar.mjs PASSAGES.json, an array of {path, line, text}. Only rules that find mistakes,
// as opposed to preferences of style, are on; spelling is left to `typos`, which knows code.

import fs from 'node:fs';
import { LocalLinter } from 'harper.js';
import { binaryInlined } from 'harper.js/binaryInlined';

const RULES = [
  'AnA', 'RepeatedWords', 'ThenThan', 'DespiteOf', 'CorrectNumberSuffix', 'DoubleModal',
  'LetsConfusion', 'WhomSubject', 'WrongApostrophe',
];

const SMALL = /^(a|an|and|are|as|at|be|by|for|from|if|in|is|it|not|of|on|or|so|that|the|this|to|was|which|with)$/;

const after = (text, lint) => [...text].slice(lint.span().end).join('');

const linter = new LocalLinter({ binary: binaryInlined });
await linter.setup();
const config = await linter.getDefaultLintConfig();
for (const rule of Object.keys(config)) config[rule] = RULES.includes(rule);
await linter.setLintConfig(config);

const found = [];
for (const { path, line, text } of JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))) {
  for (const lint of await linter.lint(text, { language: 'markdown' })) {
    // Examples repeat nouns on purpose, as in "--schema schema.json"; the small words are mistakes.
    const [first, second] = lint.get_problem_text().split(/\s+/);
    if (lint.message().includes('repeat') && (first !== second || !SMALL.test(first))) continue;
    // "a" and "A" may be names, as in "n = a (a - 1)".
    if (lint.message().includes('indefinite article') && !/^ [a-z]{2}/.test(after(text, lint))) continue;
    const before = [...text].slice(0, lint.span().start).join('');
    const what = `"${lint.get_problem_text()}": ${lint.message()}`;
    found.push({ path, line: line + before.split('\n').length - 1, what });
  }
}
console.log(JSON.stringify(found));
