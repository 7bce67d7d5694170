// An operation for each field of a root type, with its required arguments as variables and plain fields of its result.

import {
  buildSchema, getNamedType, getNullableType, isEnumType, isInputObjectType, isLeafType, isListType, isObjectType,
  isRequiredArgument, isRequiredInputField, parse, validate,
} from "graphql";
import { graphiqlLink } from "./links.mjs";

const DEPTH = 2; // of objects below the field
const NESTED = /^(nodes|userErrors|assignments?|sessions?|answerSet|client|caregiver)$/;
const VALUES = { ID: "1", Int: 1, Boolean: true, DateTime: "2036-11-24T17:00:00Z", Date: "2036-11-24" };

export function operationLinks(sdl) {
  const schema = buildSchema(sdl);
  const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].filter(Boolean);
  return Object.fromEntries(
    roots.flatMap((root) => Object.values(root.getFields()).map((field) => [`${root.name}.${field.name}`, linkTo(schema, root, field)])),
  );
}

function linkTo(schema, root, field) {
  const required = field.args.filter(isRequiredArgument);
  const list = (write) => (required.length ? `(${required.map(write).join(", ")})` : "");
  const name = field.name[0].toUpperCase() + field.name.slice(1);
  const selection = selectionOf(getNamedType(field.type), DEPTH, "    ");
  const query = `${root.name.toLowerCase()} ${name}${list((one) => `$${one.name}: ${one.type}`)} {
  ${field.name}${list((one) => `${one.name}: $${one.name}`)}${selection}
}
`;
  const [error] = validate(schema, parse(query));
  if (error) throw new Error(`${root.name}.${field.name}: ${error.message}\n${query}`);
  const values = Object.fromEntries(required.map((one) => [one.name, valueOf(one.type)]));
  const role = /Clients only/.test(field.description) ? "client" : "caregiver";
  return graphiqlLink({ query, variables: required.length ? JSON.stringify(values, null, 2) : "", role });
}

function selectionOf(type, depth, indent) {
  if (isLeafType(type)) return "";
  if (!isObjectType(type)) return ` {\n${indent}__typename\n  }`;
  const fields = Object.values(type.getFields()).filter((one) => !one.deprecationReason && !one.args.some(isRequiredArgument));
  const lines = fields.flatMap((one) => {
    const target = getNamedType(one.type);
    if (isLeafType(target)) return [one.name];
    return depth > 0 && NESTED.test(one.name) ? [one.name + selectionOf(target, one.name === "nodes" ? 0 : depth - 1, `${indent}  `)] : [];
  });
  return ` {\n${(lines.length ? lines : ["__typename"]).map((line) => indent + line).join("\n")}\n${indent.slice(2)}}`;
}

function valueOf(type) {
  const nullable = getNullableType(type);
  if (isListType(nullable)) return [valueOf(nullable.ofType)];
  if (isEnumType(nullable)) return nullable.getValues()[0].name;
  if (!isInputObjectType(nullable)) return VALUES[nullable.name] ?? "";
  const fields = Object.values(nullable.getFields()).filter(isRequiredInputField);
  return Object.fromEntries(fields.map((one) => [one.name, valueOf(one.type)]));
}
