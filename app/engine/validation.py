"""Validates a document with the rules of graphql-core, and frees everything that the rules made.

Visitors of graphql-core keep their own bound methods. `graphql.validate` therefore leaves a thousand objects
in reference cycles, which also hold the document, until the garbage collector finds them.
"""

from collections.abc import Iterable

from graphql import (
    DocumentNode,
    FragmentDefinitionNode,
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    ParallelVisitor,
    TypeInfo,
    TypeInfoVisitor,
    ValidationContext,
    visit,
)
from graphql.validation import ASTValidationRule
from graphql.validation.validate import ValidationAbortedError, query_document_keys_to_validate
from graphql.validation.validation_context import VariableUsage, VariableUsageVisitor

TOO_MANY = "Too many validation errors, error limit reached. Validation aborted."


class FreedContext(ValidationContext):
    def get_variable_usages(
        self, node: OperationDefinitionNode | FragmentDefinitionNode
    ) -> list[VariableUsage]:
        """The same as graphql-core's, without the cycles of its visitors."""
        known: list[VariableUsage] | None = self._variable_usages.get(node)
        if known is not None:
            return known
        fragment = node if isinstance(node, FragmentDefinitionNode) else None
        visitor = VariableUsageVisitor(self._type_info, fragment)
        typed = TypeInfoVisitor(self._type_info, visitor)
        visit(node, typed)
        usages = self._variable_usages[node] = visitor.usages
        free(visitor, typed)
        return usages


def validate(
    schema: GraphQLSchema,
    document: DocumentNode,
    rules: Iterable[type[ASTValidationRule]],
    max_errors: int,
    hides_suggestions: bool,
) -> list[GraphQLError]:
    """The errors of `graphql.validate`."""
    errors: list[GraphQLError] = []

    def report(error: GraphQLError) -> None:
        if len(errors) >= max_errors:
            raise ValidationAbortedError(TOO_MANY)
        errors.append(error)

    types = TypeInfo(schema)
    context = FreedContext(schema, document, types, report, hides_suggestions)
    visitors = [rule(context) for rule in rules]
    parallel = ParallelVisitor(visitors)
    typed = TypeInfoVisitor(types, parallel)
    try:
        visit(document, typed, query_document_keys_to_validate)
    except ValidationAbortedError as error:
        error.__context__ = None
        errors.append(error.with_traceback(None))
    except RecursionError:
        errors.append(ValidationAbortedError("Validation aborted."))
    finally:
        free(*visitors, parallel, typed, context, types)
    return errors


def free(*objects: object) -> None:
    for each in objects:
        vars(each).clear()
